"""Communication patterns, one per file: functions from sizes to a schedule of messages."""
