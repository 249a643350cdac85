#!/bin/sh
# Imitates the entry point of valkey/valkey: as root it gives the data to the user valkey and becomes that user.
set -e
if [ "$1" = valkey-server ] && [ "$(id -u)" = 0 ]; then
  find . ! -user valkey -exec chown valkey {} +
  exec setpriv --reuid=valkey --regid=valkey --clear-groups -- "$0" "$@"
fi
exec "$@"
