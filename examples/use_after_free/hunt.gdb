# The use after free: whose memory is this, and who has given it away?
# program: sessions.c
# replay: -e

backtrace
#> abort ()
#> bill (session=
#> main ()
# Up to the frame of ours.
frame function bill
#> abort();
print *session->peer
#> user =
# The user should be 1005. Who has written there last?
watch -location session->peer->user
#> Hardware watchpoint 1
reverse-continue
#> Hardware watchpoint 1
#> Old value =
#> send_message (text=0x
#> is anybody there?
# A message lies where the session was: so the session had been freed. Who freed it? $gone is its address, and the first argument of
# a function is in $rdi.
print message
set $gone = (long) message
delete
break free if $rdi == $gone
#> Breakpoint 2
reverse-continue
#> Breakpoint 2
backtrace
#> free (
#> log_out (session=
#> main ()
up
print session->id
#> = 5
print *session->peer
#> id = 2
#> user = 1002
# log_out frees the session, and leaves session 2 with a peer that is gone.
