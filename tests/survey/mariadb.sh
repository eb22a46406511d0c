#!/bin/bash
# MariaDB with its client, both in the recording.
# needs: mariadbd mariadb-install-db mariadb
# limit: 400
# stderr varies: the server logs times
# setup
mariadb-install-db --no-defaults --user=root --datadir="$PWD/data" --auth-root-authentication-method=normal > install.txt 2>&1
cat > inside.sh <<'END'
mariadbd --no-defaults --user=root --datadir="$PWD/data" --socket="$PWD/socket" --skip-networking --innodb-buffer-pool-size=8M &
q() { mariadb --no-defaults --socket="$PWD/socket" -N -e "$1" test; }
for _ in $(seq 300); do q 'select 1' > /dev/null 2>&1 && break; sleep 0.2; done
q 'create table t (a int primary key auto_increment, b varchar(20)) engine=innodb'
for i in 1 2 3 4; do q "insert into t (b) select concat('x', $i) from seq_1_to_50" & done
wait %2 %3 %4 %5
q 'select count(*), count(distinct b) from t'
mariadb-admin --no-defaults --socket="$PWD/socket" shutdown; wait
END
# record
exec bash inside.sh
# check
grep -q '^200.4$' "$OUT"
