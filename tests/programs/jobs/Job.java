// SPDX-License-Identifier: MIT
// Objects, threads, direct buffers, zip streams and a child process.
import java.io.*;
import java.nio.ByteBuffer;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;
import java.util.zip.*;

public class Job {
    record Row(int id, String key, List<Integer> tags) {}

    static long direct(int seed) {
        Random random = new Random(seed);
        long sum = 0;
        List<ByteBuffer> held = new ArrayList<>();
        for (int i = 0; i < 2000; i++) {
            ByteBuffer buffer = ByteBuffer.allocateDirect(1 + random.nextInt(20000));
            for (int j = 0; j < buffer.capacity(); j += 64) buffer.put(j, (byte) i);
            held.add(buffer);
            if (held.size() > 100) {
                ByteBuffer old = held.remove(random.nextInt(100));
                sum += old.capacity() + old.get(0);
            }
        }
        return sum;
    }

    static String zip(int seed) throws IOException {
        Random random = new Random(seed);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ZipOutputStream out = new ZipOutputStream(bytes)) {
            for (int i = 0; i < 200; i++) {
                byte[] data = new byte[random.nextInt(30000)];
                for (int j = 0; j < data.length; j++) data[j] = (byte) (random.nextInt(20) + 'a');
                out.putNextEntry(new ZipEntry("entry" + i));
                out.write(data);
                out.closeEntry();
            }
        }
        long total = 0;
        CRC32 crc = new CRC32();
        try (ZipInputStream in = new ZipInputStream(new ByteArrayInputStream(bytes.toByteArray()))) {
            while (in.getNextEntry() != null) {
                byte[] data = in.readAllBytes();
                total += data.length;
                crc.update(data);
            }
        }
        return total + ":" + crc.getValue();
    }

    public static void main(String[] args) throws Exception {
        List<Row> rows = IntStream.range(0, 200000)
                             .mapToObj(i -> new Row(i, "k" + (i * 7919L) % 10007, List.of(i % 3, i % 5)))
                             .collect(Collectors.toList());
        Map<String, Integer> byKey = new TreeMap<>();
        for (Row row : rows) byKey.merge(row.key(), row.tags().get(0) + row.tags().get(1), Integer::sum);
        System.out.println(byKey.size() + " " + byKey.values().stream().mapToLong(x -> x).sum());
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<String>> answers = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            int seed = i;
            answers.add(pool.submit(() -> direct(seed) + " " + zip(seed)));
        }
        for (Future<String> answer : answers) System.out.println(answer.get());
        pool.shutdown();
        Process child = new ProcessBuilder("sh", "-c", "echo from a child").redirectErrorStream(true).start();
        System.out.print(new String(child.getInputStream().readAllBytes()));
    }
}
