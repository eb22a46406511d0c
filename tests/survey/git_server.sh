#!/bin/bash
# git: commits, a daemon, clones from it, a repack with threads, a merge.
# needs: git
# limit: 240
# stderr varies: the daemon and clones print progress
# setup
cat > inside.sh <<'END'
export HOME=$PWD GIT_AUTHOR_DATE='1600000000 +0000' GIT_COMMITTER_DATE='1600000000 +0000'
git config --global user.name x; git config --global user.email x@example.org; git config --global init.defaultBranch main
git init -q r && cd r && for i in 1 2 3 4 5; do seq $((i * 100)) > f$i; git add . && git commit -qm "c$i"; done
git checkout -qb other HEAD~2 && echo b > b && git add b && git commit -qm b && git checkout -q main && git merge -q other -m merge
cd ..
git daemon --reuseaddr --export-all --base-path="$PWD" --port=9499 --listen=127.0.0.1 --pid-file=pid &
while [ ! -s pid ]; do sleep 0.05; done
git clone -q git://127.0.0.1:9499/r copy && cd copy && git log --format='%h %s' && git repack -qad --threads=2 && git fsck
kill "$(cat ../pid)"; wait
END
# record
exec bash inside.sh
# check
grep -q merge "$OUT"
