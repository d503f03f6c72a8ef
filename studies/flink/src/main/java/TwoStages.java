import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Two jobs in one MiniCluster, with aligned and with unaligned checkpoints: topic in, a count per key, topic mid, a
 * count per key, topic out. Arguments: the brokers, and a folder for checkpoints. Prints where REST is and the jobs'
 * ids, and ends with its standard input.
 */
public final class TwoStages {
    private static final int PARALLELISM = 2;

    public static void main(String[] arguments) throws Exception {
        Configuration cluster = new Configuration();
        cluster.setString("rest.address", "127.0.0.1");
        cluster.setString("rest.bind-address", "127.0.0.1");
        cluster.setString("rest.bind-port", "0");
        cluster.setString("web.checkpoints.history", "10000");
        MiniClusterConfiguration settings =
                new MiniClusterConfiguration.Builder()
                        .setConfiguration(cluster)
                        .setNumTaskManagers(1)
                        .setNumSlotsPerTaskManager(2 * PARALLELISM)
                        .build();
        try (MiniCluster running = new MiniCluster(settings)) {
            running.start();
            String aligned = submit(running, arguments, "aligned");
            String unaligned = submit(running, arguments, "unaligned");
            System.out.printf(
                    "{\"rest\": \"%s\", \"aligned\": \"%s\", \"unaligned\": \"%s\"}%n",
                    running.getRestAddress().get(), aligned, unaligned);
            System.out.flush();
            while (System.in.read() >= 0) {}
        }
        System.exit(0);
    }

    private static String submit(MiniCluster running, String[] arguments, String mode) throws Exception {
        Configuration settings = new Configuration();
        settings.setString("execution.checkpointing.mode", "EXACTLY_ONCE");
        // Whoever measures triggers each checkpoint.
        settings.setString("execution.checkpointing.interval", "10 h");
        settings.setString("execution.checkpointing.unaligned.enabled", String.valueOf(mode.equals("unaligned")));
        settings.setString("execution.checkpointing.storage", "filesystem");
        settings.setString("execution.checkpointing.dir", Path.of(arguments[1], mode).toUri().toString());
        StreamExecutionEnvironment job = StreamExecutionEnvironment.getExecutionEnvironment(settings);
        job.setParallelism(PARALLELISM);
        job.setBufferTimeout(1);
        stage(job, arguments[0], mode, "in", "mid");
        stage(job, arguments[0], mode, "mid", "out");
        JobGraph graph = job.getStreamGraph().getJobGraph();
        running.submitJob(graph).get();
        return graph.getJobID().toString();
    }

    private static void stage(StreamExecutionEnvironment job, String brokers, String mode, String from, String to) {
        String target = mode + "-" + to;
        KafkaSource<Tuple2<String, String>> source =
                KafkaSource.<Tuple2<String, String>>builder()
                        .setBootstrapServers(brokers)
                        .setTopics(mode + "-" + from)
                        .setGroupId(mode + "-" + from)
                        .setStartingOffsets(OffsetsInitializer.earliest())
                        .setDeserializer(new Read())
                        .build();
        KafkaSink<Tuple2<String, String>> sink =
                KafkaSink.<Tuple2<String, String>>builder()
                        .setBootstrapServers(brokers)
                        .setDeliveryGuarantee(DeliveryGuarantee.AT_LEAST_ONCE)
                        .setProperty("linger.ms", "0")
                        .setRecordSerializer(
                                (record, context, time) ->
                                        new ProducerRecord<>(target, bytes(record.f0), bytes(record.f1)))
                        .build();
        job.fromSource(source, WatermarkStrategy.noWatermarks(), from)
                .keyBy(record -> record.f0)
                .map(new Count())
                .sinkTo(sink);
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** A key and a value as text. */
    private static final class Read implements KafkaRecordDeserializationSchema<Tuple2<String, String>> {
        @Override
        public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<Tuple2<String, String>> out) {
            out.collect(
                    Tuple2.of(
                            new String(record.key(), StandardCharsets.UTF_8),
                            new String(record.value(), StandardCharsets.UTF_8)));
        }

        @Override
        public TypeInformation<Tuple2<String, String>> getProducedType() {
            return Types.TUPLE(Types.STRING, Types.STRING);
        }
    }

    /** A count per key. */
    private static final class Count extends RichMapFunction<Tuple2<String, String>, Tuple2<String, String>> {
        private transient ValueState<Long> count;

        @Override
        public void open(OpenContext context) {
            count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
        }

        @Override
        public Tuple2<String, String> map(Tuple2<String, String> record) throws Exception {
            Long before = count.value();
            count.update(before == null ? 1L : before + 1L);
            return record;
        }
    }

    private TwoStages() {}
}
