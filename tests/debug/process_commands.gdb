# The processes of the recording, and what it says of itself.
# program: forks.c
process
#> *
#> forks
info recording
#> Recording:
#> Machine:
elapsed-time
#> Elapsed Time (s):
help bis
#> seek PLACE
bis
#> checkpoint, restart N
monitor help
#> seek PLACE
#> the next continue goes
monitor nonsense
#> is no command of bis
monitor seek
#> seek needs a place
