package org.apache.kafka.coordinator.group;

/** Random histories of one consumer group. */
public class Histories extends PlayedClients {
    private Histories(long seed, int maxPartitions) throws Exception {
        super(seed, maxPartitions);
    }

    @Override
    void play() {
        addTopics();
        int steps = 20 + random.nextInt(40);
        for (int i = 0; i < steps; i++) {
            int choice = random.nextInt(100);
            if (choice < 3) addTopic();
            else if (choice < 6) growTopic();
            else if (choice < 20) advance();
            else if (choice < 26 && !oracle.tasks.isEmpty()) resolve();
            else if (choice < 36 || clients.isEmpty()) join();
            else if (choice < 44 && withClassic && hasMembers()) addClassic();
            else heartbeat(clients.get(random.nextInt(clients.size())));
        }
    }

    public static void main(String[] arguments) throws Exception {
        playAll(arguments, Histories::new);
    }
}
