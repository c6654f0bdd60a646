package io.github.clockd;

/**
 * Limits when a set is made. A change whose condition does not hold is refused with
 * condition_failed and the alarm.
 */
public final class Condition {
  /** No alarm has this id, not even a finished alarm that is kept. */
  public static final Condition ABSENT = new Condition("absent", 0);

  /** The new time is earlier than the alarm's, or no alarm is pending. */
  public static final Condition EARLIER = new Condition("earlier", 0);

  /** The new time is later than the alarm's, or no alarm is pending. */
  public static final Condition LATER = new Condition("later", 0);

  /** Name in the body of the request; null: the condition is on a generation. */
  final String name;

  final long generation;

  private Condition(String name, long generation) {
    this.name = name;
    this.generation = generation;
  }

  /** The alarm has this generation. */
  public static Condition atGeneration(long generation) {
    return new Condition(null, generation);
  }
}
