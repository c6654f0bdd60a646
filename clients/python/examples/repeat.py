"""Sets alarms that ring again, several at once."""

import clockd

workdays = clockd.Repeat(cron="0 9 * * MON-FRI", time_zone="Europe/Berlin", missed="skip")
with clockd.Client() as client:
    results = client.batch(
        "reports",
        [
            clockd.Set("daily", repeat=workdays, ack_timeout="5m"),
            clockd.Set("heartbeat", repeat=clockd.Repeat(every="30s")),
            clockd.Cancel("weekly"),
        ],
    )
    for result in results:
        print(result.business_id, result.state or result.error)
