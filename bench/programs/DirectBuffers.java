// SPDX-License-Identifier: MIT
// A Java job of the benchmark suite: direct buffers, which the JVM takes with malloc, and packing, whose streams do so too.
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Random;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

public class DirectBuffers {
    static long buffers(Random random) {
        ByteBuffer[] kept = new ByteBuffer[1500];
        long sum = 0;
        for (int i = 0; i < 30000; i++) {
            ByteBuffer buffer = ByteBuffer.allocateDirect(1024 + random.nextInt(32768));
            buffer.putInt(0, i);
            sum += buffer.capacity();
            kept[random.nextInt(kept.length)] = buffer;
        }
        return sum;
    }

    static int pack(Random random) throws Exception {
        byte[] text = new byte[400000];
        for (int i = 0; i < text.length; i++)
            text[i] = (byte) ('a' + random.nextInt(8));
        byte[] packed = new byte[text.length];
        int total = 0;
        for (int i = 0; i < 20; i++) {
            Deflater deflater = new Deflater(1);
            deflater.setInput(text);
            deflater.finish();
            int length = deflater.deflate(packed);
            deflater.end();
            Inflater inflater = new Inflater();
            inflater.setInput(packed, 0, length);
            total += inflater.inflate(text);
            inflater.end();
        }
        return total;
    }

    public static void main(String[] arguments) throws Exception {
        Random random = new Random(42);
        System.out.println(buffers(random) + " " + pack(random));
        String rest = System.getenv("HAKMEM_BENCH_REST");
        if (rest != null) {
            System.gc();
            Files.writeString(Path.of(rest), "");
            Thread.sleep(2200);
        }
    }
}
