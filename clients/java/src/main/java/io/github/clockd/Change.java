package io.github.clockd;

import java.util.Objects;

/** One change of a batch: a set, or a cancel. */
public final class Change {
  final String businessId;

  /** null: the change is a cancel. */
  final AlarmSpec spec;

  private Change(String businessId, AlarmSpec spec) {
    this.businessId = businessId;
    this.spec = spec;
  }

  /** A set. */
  public static Change set(String businessId, AlarmSpec spec) {
    return new Change(businessId, Objects.requireNonNull(spec, "spec"));
  }

  /** A cancel. */
  public static Change cancel(String businessId) {
    return new Change(businessId, null);
  }
}
