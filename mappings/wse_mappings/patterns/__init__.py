"""Communication patterns: functions from sizes to a schedule of messages."""
