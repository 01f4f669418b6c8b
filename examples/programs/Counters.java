/**
 * Two threads that count in neighbouring fields of one object.
 *
 * <p>javac -d . Counters.java; java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit Counters COUNT
 */
public class Counters {
    volatile long left;
    volatile long right;

    void countLeft(int count) {
        for (int i = 0; i < count; i++) {
            left++;
        }
    }

    void countRight(int count) {
        for (int i = 0; i < count; i++) {
            right++;
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        int count = Integer.parseInt(arguments[0]);
        Counters counters = new Counters();
        Thread one = new Thread(() -> counters.countLeft(count));
        Thread other = new Thread(() -> counters.countRight(count));
        one.start();
        other.start();
        one.join();
        other.join();
    }
}
