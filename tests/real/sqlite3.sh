#!/bin/bash
# sqlite3 with a database file in WAL mode (a shared mapping), indexes, transactions and a backup.
# needs: sqlite3
# setup
cat > script.sql <<'SQL'
pragma journal_mode=wal;
create table t (id integer primary key, name text, value real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
insert into t select i, 'name ' || (i * 7919 % 10007), random() / 1e15 from n;
create index by_name on t (name);
begin; update t set value = value * 2 where id % 3 = 0; rollback;
begin; delete from t where id % 5 = 0; commit;
select count(*), sum(length(name)) from t;
select name, count(*) c from t group by name order by c desc, name limit 5;
select value from t order by value limit 3;
pragma integrity_check;
pragma wal_checkpoint(truncate);
.backup copy.db
SQL
# record
exec sqlite3 -batch test.db ".read script.sql"
# check
grep -q '^16000|' "$OUT" && grep -q '^ok$' "$OUT"
test "$(sqlite3 copy.db 'select count(*) from t')" = 16000
