import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Writes and checks records of every codec and acks setting; what they hold is defined in workers/payloads.py. */
final class Codecs {
    private static final int RECORDS_PER_LABEL = 41;
    private static final int VALUE_CHARS = 2_000;

    private Codecs() {}

    static void produce(JsonNode config) throws Exception {
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            for (String acks : List.of("0", "1", "all", "idempotent")) {
                produce(config, "java/" + codec + "/" + acks, codec, acks);
            }
        }
        Reporting.report("produced");
    }

    private static void produce(JsonNode config, String label, String codec, String acks) throws Exception {
        boolean idempotent = acks.equals("idempotent");
        Properties properties = ClientWorker.properties(config,
            "compression.type", codec,
            "acks", idempotent ? "all" : acks,
            "enable.idempotence", Boolean.toString(idempotent),
            "linger.ms", "20",
            // One batch for a label's records: its snappy blocks are 32 KiB, and more than one is wanted.
            "batch.size", "131072",
            "key.serializer", "org.apache.kafka.common.serialization.StringSerializer",
            "value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
            List<Future<?>> sent = new ArrayList<>();
            for (int number = 0; number < RECORDS_PER_LABEL; number++) {
                ProducerRecord<String, String> record =
                    new ProducerRecord<>(config.get("topic").asText(), label, value(label, number));
                record.headers().add("codec", bytes(codec)).add("number", bytes(Integer.toString(number)));
                sent.add(producer.send(record));
            }
            for (Future<?> one : sent) {
                one.get();
            }
        }
    }

    static void read(JsonNode config) {
        Properties properties = ClientWorker.properties(config,
            "auto.offset.reset", "earliest",
            "check.crcs", "true",
            "key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer",
            "value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        List<TopicPartition> wanted = new ArrayList<>();
        config.get("topics").forEach(topic -> wanted.add(new TopicPartition(topic.asText(), 0)));
        Map<String, Integer> counts = new TreeMap<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties)) {
            consumer.assign(wanted);
            for (int left = config.get("count").asInt(); left > 0; ) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                    check(record);
                    counts.merge(record.key(), 1, Integer::sum);
                    left--;
                }
            }
        }
        Reporting.report("read", Map.of("counts", counts));
    }

    private static void check(ConsumerRecord<String, String> record) {
        String label = record.key();
        int number = Integer.parseInt(header(record, "number"));
        Reporting.requireEqual(header(record, "codec"), label.split("/")[1], label);
        Reporting.requireEqual(record.value(), value(label, number), label + "#" + number);
    }

    private static String value(String label, int number) {
        if (number == RECORDS_PER_LABEL - 1) {
            return null;
        }
        String unit = label + "#" + number + " ";
        return unit.repeat(VALUE_CHARS / unit.length() + 1).substring(0, VALUE_CHARS);
    }

    private static String header(ConsumerRecord<String, String> record, String name) {
        return new String(record.headers().lastHeader(name).value(), StandardCharsets.UTF_8);
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
