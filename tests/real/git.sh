#!/bin/bash
# git: init, commits, branches, merge, log, blame, gc, fsck, clone.
# needs: git
# setup
cat > script <<'SCRIPT'
set -e
git config --global user.name "A Guest" && git config --global user.email guest@example.org
git config --global init.defaultBranch main
git init repo && cd repo
for i in 1 2 3 4 5; do
  seq 1 $((i * 100)) > "file$i"; git add . ; git commit -qm "commit $i"
done
git checkout -qb side HEAD~2 && echo side > side && git add side && git commit -qm side
git checkout -q main && git merge -m merged side
git log --graph --stat --format='%H %an %s'
git blame -s file1 | tail -3
git gc --quiet && git fsck --full
git clone -q . ../clone && git -C ../clone status
SCRIPT
# record
exec bash script
# check
git -C repo fsck
test "$(git -C clone log --oneline | wc -l)" = 7
grep -q 'nothing to commit' "$OUT"
