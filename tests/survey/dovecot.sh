#!/bin/bash
# dovecot (a master, ten kinds of processes that talk by sockets) and a python IMAP client.
# needs: dovecot doveadm python3
# package: dovecot-imapd
# limit: 240
# varies: names made by chance
# setup
mkdir run mail state; chmod 777 mail
cat > d.conf <<END
base_dir = $PWD/run
state_dir = $PWD/state
log_path = $PWD/log
protocols = imap
listen = 127.0.0.1
ssl = no
disable_plaintext_auth = no
mail_location = maildir:$PWD/mail/%u
first_valid_uid = 1
service imap-login {
  chroot =
  inet_listener imap {
    port = 8432
  }
  inet_listener imaps {
    port = 0
  }
}
service anvil {
  chroot =
}
passdb {
  driver = passwd-file
  args = $PWD/users
}
userdb {
  driver = static
  args = uid=mail gid=mail home=$PWD/mail/%u
}
END
echo 'joe:{PLAIN}secret' > users
cat > client.py <<'END'
import imaplib, time
for n in range(100):
    try: c = imaplib.IMAP4("127.0.0.1", 8432); break
    except OSError: time.sleep(0.1)
print(c.login("joe", "secret")[0])
for n in range(5): c.append("INBOX", "", None, b"Subject: m%d\r\n\r\ntext %d\r\n" % (n, n))
print(c.select("INBOX")); print(c.search(None, "SUBJECT", "m3")); print(c.fetch("3", "(BODY[TEXT])"))
c.create("Other"); print(c.copy("1:2", "Other")[0]); c.store("1", "+FLAGS", "\\Deleted"); print(c.expunge())
c.logout()
END
cat > inside.sh <<'END'
dovecot -F -c d.conf & s=$!
python3 client.py; doveadm -c d.conf who | wc -l; doveadm -c d.conf stop; wait $s; echo end $?
END
# record
exec bash inside.sh
# check
grep -q "text 2" "$OUT" && grep -q '^end 0' "$OUT"
