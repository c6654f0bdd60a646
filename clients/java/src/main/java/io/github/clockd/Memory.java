package io.github.clockd;

import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;

/**
 * Remembers the last rings by message id, each with the answer that the service has not accepted
 * yet. Copies of a ring come soon after it: after a lost connection, or a node's end.
 */
final class Memory {
  /** What is known of a ring. */
  enum State {
    NEW,
    BUSY,
    DONE
  }

  /** A ring. The answer is null if nothing is to be done for a copy. */
  record Known(State state, Answer unsent) {}

  private final Set<String> busy = new HashSet<>();
  private final Map<String, Answer> done;

  Memory(int size) {
    done =
        new LinkedHashMap<>() {
          private static final long serialVersionUID = 1;

          @Override
          protected boolean removeEldestEntry(Map.Entry<String, Answer> eldest) {
            return size() > size;
          }
        };
  }

  /** Returns what is known of a ring. After NEW, the ring is BUSY until {@link #end}. */
  synchronized Known begin(String messageId) {
    if (done.containsKey(messageId)) return new Known(State.DONE, done.get(messageId));
    return new Known(busy.add(messageId) ? State.NEW : State.BUSY, null);
  }

  /** Makes the ring DONE. It may be called again, to replace the answer. */
  synchronized void end(String messageId, Answer unsent) {
    busy.remove(messageId);
    done.put(messageId, unsent);
  }
}
