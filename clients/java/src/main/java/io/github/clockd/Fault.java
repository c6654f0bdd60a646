package io.github.clockd;

/**
 * A fault after which a consumer goes on.
 *
 * @param text what happened
 * @param cause the ClockdException, or what the handler has thrown; null: none
 * @param ring the ring that was not handled, or whose answer was not accepted; null: the fault is
 *     none of a ring
 */
public record Fault(String text, Throwable cause, Ring ring) {}
