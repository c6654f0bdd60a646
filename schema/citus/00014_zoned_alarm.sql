-- +goose Up
-- side by side: yes, because an older build neither reads nor writes the table.
-- zoned_alarm is split by shard, like the alarms. The shard stands last in its primary key.
ALTER TABLE zoned_alarm ADD COLUMN shard SMALLINT NOT NULL; -- shard of the alarm
ALTER TABLE zoned_alarm DROP CONSTRAINT zoned_alarm_pkey;
ALTER TABLE zoned_alarm ADD PRIMARY KEY (alarm_id, shard);
SELECT create_distributed_table('zoned_alarm', 'shard', colocate_with => 'alarm');

-- +goose Down
SELECT undistribute_table('zoned_alarm');
ALTER TABLE zoned_alarm DROP CONSTRAINT zoned_alarm_pkey;
ALTER TABLE zoned_alarm DROP COLUMN shard;
ALTER TABLE zoned_alarm ADD PRIMARY KEY (alarm_id);
