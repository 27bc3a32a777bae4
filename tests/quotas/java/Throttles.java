import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.metrics.QuotaViolationException;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.metrics.stats.TokenBucket;
import org.apache.kafka.server.quota.ControllerMutationQuotaManager;
import org.apache.kafka.server.quota.QuotaUtils;

/**
 * The throttle times of Kafka's own sensors: a line in, a line out.
 *
 * In: `rate` or `bucket`, samples, seconds of each, limit, then steps `kind,value,ms`: `c` records and checks, `n`
 * records alone, `s` checks and then records (a strict quota). Out: the throttle time of each step, 0 for none.
 */
public class Throttles {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(played(line.split(" ")));
        }
    }

    private static String played(String[] words) {
        boolean isRate = words[0].equals("rate");
        MetricConfig config = new MetricConfig()
            .samples(Integer.parseInt(words[1]))
            .timeWindow(Long.parseLong(words[2]), TimeUnit.SECONDS)
            .quota(new Quota(Double.parseDouble(words[3]), true));
        List<String> waits = new ArrayList<>();
        try (Metrics metrics = new Metrics()) {
            Sensor sensor = metrics.sensor("quota");
            MetricName name = metrics.metricName("name", "group", "", Map.of());
            sensor.add(name, isRate ? new Rate() : new TokenBucket(), config);
            for (int i = 4; i < words.length; i++) {
                String[] step = words[i].split(",");
                waits.add(Long.toString(wait(sensor, isRate, step[0], Double.parseDouble(step[1]), Long.parseLong(step[2]))));
            }
        }
        return String.join(" ", waits);
    }

    private static long wait(Sensor sensor, boolean isRate, String kind, double value, long timeMs) {
        try {
            if (kind.equals("s")) {
                sensor.checkQuotas(timeMs);
            }
            sensor.record(value, timeMs, kind.equals("c"));
            return 0;
        } catch (QuotaViolationException e) {
            return isRate ? QuotaUtils.throttleTime(e, timeMs) : ControllerMutationQuotaManager.throttleTimeMs(e);
        }
    }
}
