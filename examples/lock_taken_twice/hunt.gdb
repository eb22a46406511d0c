# The lock taken twice: the program hangs, and was ended by hand. Who holds the lock that all wait for?
# program: bank.c
# command: timeout 3 {program}
# replay: -p bank -e

# All threads wait: main for the others, and these for a lock.
thread apply all -s backtrace
#> charge_fee (account=
#> withdraw (account=
#> transfers
python
for thread in gdb.selected_inferior().threads():
    thread.switch()
    frame = gdb.newest_frame()
    while frame and frame.name() != "charge_fee":
        frame = frame.older()
    if frame:
        frame.select()
        break
end
frame
#> charge_fee
# Who has it? The lock itself says so: the thread that is its owner is the very one that waits.
print account->lock.__data.__owner
python print("it waits itself:", gdb.selected_thread().ptid[1] == int(gdb.parse_and_eval("account->lock.__data.__owner")))
#> it waits itself: True
# Where did it take it?
watch -location account->lock.__data.__owner
#> Hardware watchpoint 1
reverse-continue
#> Hardware watchpoint 1
#> New value = 0
backtrace
#> pthread_mutex_lock
#> withdraw (account=
#> transfers
# withdraw holds the lock while it calls charge_fee, which takes it once more.
