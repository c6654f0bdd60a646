#!/bin/sh
# Runs after the package is installed or upgraded, of deb and rpm. It makes the user, and restarts a running service with the new program.
set -e

if ! getent passwd clockd >/dev/null; then
  if command -v systemd-sysusers >/dev/null; then
    systemd-sysusers /usr/lib/sysusers.d/clockd.conf
  else
    useradd --system --user-group --home-dir /var/lib/clockd --shell /usr/sbin/nologin --comment 'clockd, the alarm clock for services' clockd
  fi
fi

if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  systemctl try-restart clockd.service
fi
