#!/bin/sh
# Evaluates the alerts on made-up series (alert_rules.yml). Exit code 77: promtool is missing.
set -eu
cd "$(dirname "$0")"
command -v promtool > /dev/null || { echo "skipped: promtool is not installed (apt-get install prometheus)"; exit 77; }
promtool check rules ../../deploy/prometheus/alerts.yml
exec promtool test rules alert_rules.yml
