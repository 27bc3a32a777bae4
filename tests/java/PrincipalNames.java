import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Base64;
import java.util.HexFormat;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/** Answers each line of input: what Java calls a subject, and what Kafka's rules make of it; "!": neither. */
public final class PrincipalNames {
    private static String decoded(String base64) throws Exception {
        return new String(Base64.getDecoder().decode(base64), "UTF-8");
    }

    private static String answer(String[] words) {
        try {
            if (words[0].equals("subject"))
                return "=" + new X500Principal(HexFormat.of().parseHex(words[1])).getName();
            return "=" + SslPrincipalMapper.fromRules(decoded(words[1])).getName(decoded(words[2]));
        } catch (Exception refused) {
            return "!";
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder answers = new StringBuilder();
        for (String line; (line = lines.readLine()) != null; )
            answers.append(Base64.getEncoder().encodeToString(answer(line.split(" ")).getBytes("UTF-8"))).append('\n');
        System.out.print(answers);
    }
}
