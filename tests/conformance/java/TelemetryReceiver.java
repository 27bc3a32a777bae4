import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.common.telemetry.internals.ClientTelemetryUtils;
import org.apache.kafka.server.telemetry.ClientTelemetryContext;
import org.apache.kafka.server.telemetry.ClientTelemetryExporter;
import org.apache.kafka.server.telemetry.ClientTelemetryExporterProvider;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;

/** A receiver of client metrics, with which a broker serves GetTelemetrySubscriptions and PushTelemetry (KIP-714). */
public class TelemetryReceiver implements MetricsReporter, ClientTelemetryExporterProvider, ClientTelemetryExporter {
    @Override
    public ClientTelemetryExporter clientTelemetryExporter() {
        return this;
    }

    /** Fails if the payload is no MetricsData, as a receiver that reads what it is given does. */
    @Override
    public void exportMetrics(ClientTelemetryContext context, ClientTelemetryPayload payload) {
        ClientTelemetryUtils.deserializeMetricsData(payload.data());
    }

    @Override
    public void configure(Map<String, ?> configs) {}

    @Override
    public void init(List<KafkaMetric> metrics) {}

    @Override
    public void metricChange(KafkaMetric metric) {}

    @Override
    public void metricRemoval(KafkaMetric metric) {}

    @Override
    public void close() {}
}
