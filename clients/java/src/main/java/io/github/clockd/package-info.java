/**
 * Client of clockd, the alarm clock for services. {@link io.github.clockd.Client} makes the calls,
 * and {@link io.github.clockd.Consumer} receives rings. A call that fails throws a {@link
 * io.github.clockd.ClockdException}.
 */
package io.github.clockd;
