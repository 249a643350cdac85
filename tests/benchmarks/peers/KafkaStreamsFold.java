import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts votes and unique voters per participant and source, in RocksDB stores with changelogs.
 *
 * A voter's votes are in one partition, so each partition keeps counts of its own, without a repartition topic;
 * a reader adds them up. Tuned as Kafka's "Memory Management" and "Configuring a Streams Application" advise: a
 * thread per core, a record cache for the stores, a longer commit interval for throughput.
 */
public final class KafkaStreamsFold {
    static final class Fold implements Processor<String, byte[], Void, Void> {
        private static final ObjectMapper JSON = new ObjectMapper();
        private KeyValueStore<String, String> voters;
        private KeyValueStore<String, Long> votes;
        private KeyValueStore<String, Long> uniques;

        @Override
        public void init(ProcessorContext<Void, Void> context) {
            voters = context.getStateStore("voters");
            votes = context.getStateStore("votes");
            uniques = context.getStateStore("uniques");
        }

        @Override
        public void process(Record<String, byte[]> record) {
            JsonNode event = parse(record.value());
            if (!event.get("type").textValue().equals("VoteCast")) {
                return;
            }
            String source = event.get("source").textValue();
            String known = voters.get(record.key());
            String voted = known == null ? "" : known;
            for (JsonNode choice : event.get("choices")) {
                String counted = choice.get(0).textValue() + "/" + source;
                add(votes, counted, choice.get(1).longValue());
                if (!voted.contains(counted)) {
                    voted = voted + counted + " ";
                    add(uniques, counted, 1);
                }
            }
            if (!voted.equals(known)) {
                voters.put(record.key(), voted);
            }
        }

        private static JsonNode parse(byte[] value) {
            try {
                return JSON.readTree(value);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }

        private static void add(KeyValueStore<String, Long> store, String key, long count) {
            Long before = store.get(key);
            store.put(key, (before == null ? 0 : before) + count);
        }
    }

    /** Arguments: bootstrap servers, topic, group, processing guarantee, state directory. */
    public static void main(String[] given) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, given[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, given[2]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, given[3]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, given[4]);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, Runtime.getRuntime().availableProcessors());
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 64 * 1024 * 1024L);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 1000);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        settings.put("auto.offset.reset", "earliest");

        StreamsBuilder builder = new StreamsBuilder();
        builder.addStateStore(Stores.keyValueStoreBuilder(
            Stores.persistentKeyValueStore("voters"), Serdes.String(), Serdes.String()).withCachingEnabled());
        for (String name : new String[] {"votes", "uniques"}) {
            builder.addStateStore(Stores.keyValueStoreBuilder(
                Stores.persistentKeyValueStore(name), Serdes.String(), Serdes.Long()).withCachingEnabled());
        }
        builder.stream(given[1], Consumed.with(Serdes.String(), Serdes.ByteArray()))
            .process(Fold::new, "voters", "votes", "uniques");
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }
}
