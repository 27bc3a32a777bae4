import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.UUID;

/** Prints histories of hash tables with the order of their keys at the end, as JSON: java Orders.java > orders.json. */
public class Orders {
    /** With the hash of Kafka's Uuid, which is that of java.util.UUID. */
    static String hex(UUID id) {
        return String.format("%016x%016x", id.getMostSignificantBits(), id.getLeastSignificantBits());
    }

    interface Keys<K> {
        K next(Random random);
    }

    interface Text<K> {
        String of(K key);
    }

    static <K> String history(String name, String kind, int capacity, int steps, Random random, Keys<K> keys, Text<K> text) {
        Map<K, Boolean> table = new HashMap<>(capacity);
        List<K> seen = new ArrayList<>();
        List<String> told = new ArrayList<>();
        for (int i = 0; i < steps; i++) {
            int choice = random.nextInt(10);
            K key = seen.isEmpty() || choice < 8 ? keys.next(random) : seen.get(random.nextInt(seen.size()));
            seen.add(key);
            if (choice < 4) {
                table.put(key, true);
                told.add("\"+" + text.of(key) + "\"");
            } else if (choice < 9) {
                table.computeIfAbsent(key, absent -> true);
                told.add("\"?" + text.of(key) + "\"");
            } else {
                table.remove(key);
                told.add("\"-" + text.of(key) + "\"");
            }
        }
        List<String> order = new ArrayList<>();
        table.keySet().forEach(key -> order.add("\"" + text.of(key) + "\""));
        return String.format(
            "{\"name\": \"%s\", \"kind\": \"%s\", \"capacity\": %d,%n \"steps\": [%s],%n \"keys\": [%s]}",
            name, kind, capacity, String.join(", ", told), String.join(", ", order));
    }

    public static void main(String[] arguments) {
        Random random = new Random(848);
        List<String> histories = new ArrayList<>();
        for (int steps : new int[] {5, 13, 14, 25, 60}) {
            histories.add(history("texts-" + steps, "string", 16, steps, random,
                r -> "topic-" + r.nextInt(1000), key -> key));
            histories.add(history("numbers-" + steps, "int", 16, steps, random,
                r -> r.nextInt(200), key -> key.toString()));
            histories.add(history("uuids-" + steps, "uuid", steps % 7, steps, random,
                r -> new UUID(r.nextLong(), r.nextLong()), Orders::hex));
        }
        System.out.println("[" + String.join(",\n", histories) + "]");
    }
}
