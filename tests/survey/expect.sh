#!/bin/bash
# expect drives python, bc and a shell at pseudo terminals.
# needs: expect bc python3
# version: expect -v
# limit: 120
# setup
cat > a.exp <<'END'
set timeout 60
log_user 0
spawn bc -q
send "6*7\r"
expect "42" { puts "bc says 42" }
send "\004"
expect eof
spawn python3 -q
expect ">>> "
send "import os; print(os.isatty(0), 'x' * 5)\r"
expect "True xxxxx" { puts "python has a terminal" }
expect ">>> "
sleep 0.5
send "\003"
expect "KeyboardInterrupt" { puts "interrupted" }
expect ">>> "
send "exit(3)\r"
expect eof
puts "status [lindex [wait] 3]"
END
# record
expect a.exp
# check
grep -q '^interrupted$' "$OUT" && grep -q '^status 3$' "$OUT"
