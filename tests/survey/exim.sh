#!/bin/bash
# exim as a daemon; mail comes by SMTP and by sendmail, and is delivered by its children to a file.
# needs: exim4 python3
# package: exim4-daemon-light
# limit: 240
# varies: pids and times in lines
# setup
mkdir spool log mail; chmod 777 . spool log mail
cat > e.conf <<END
spool_directory = $PWD/spool
log_file_path = $PWD/log/%slog
pid_file_path = $PWD/pid
primary_hostname = example.test
daemon_smtp_ports = 8428
local_interfaces = 127.0.0.1
domainlist local_domains = example.test
acl_smtp_rcpt = accept_all
trusted_users = root
exim_user = Debian-exim
never_users =
begin acl
accept_all:
  accept
begin routers
all:
  driver = accept
  domains = +local_domains
  local_parts = joe : ann
  transport = file
begin transports
file:
  driver = appendfile
  file = $PWD/mail/\$local_part_data
  user = Debian-exim
  create_file = anywhere
END
cat > send.py <<'END'
import smtplib, time, glob, sys
for n in range(100):
    try: s = smtplib.SMTP("127.0.0.1", 8428); break
    except OSError: time.sleep(0.1)
for n in range(3):
    s.sendmail("a@example.test", ["joe@example.test", "ann@example.test"], "Subject: m%d\r\n\r\ntext %d\r\n" % (n, n))
s.quit()
END
cat > inside.sh <<'END'
exim4 -C $PWD/e.conf -bdf -q1h & s=$!
python3 send.py
printf 'Subject: m4\n\ntext 4\n' | exim4 -C $PWD/e.conf -odf joe@example.test
for _ in $(seq 200); do test "$(cat mail/* 2> /dev/null | grep -c ^text)" = 7 && break; sleep 0.05; done
grep -c ^text mail/joe mail/ann; exim4 -C $PWD/e.conf -bp | wc -l; kill $s; wait $s; echo end $?
END
# record
exec bash inside.sh
# check
grep -q 'joe:4' "$OUT" && grep -q 'ann:3' "$OUT" && grep -q '^end' "$OUT"
