#!/bin/sh
# Runs before the package is removed or upgraded. Debian says "upgrade", rpm passes 1, when another version stays.
set -e

case $1 in
  upgrade | 1) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
  systemctl disable --now clockd.service
fi
