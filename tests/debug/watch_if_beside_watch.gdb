# Each watchpoint of the same bytes has its own condition, or none; `condition N` takes the one of `watch-if` away.
# program: watched_members.c
break main
continue
watch-if pair.first pair.first > 8
watch -location pair.first
continue
#> New value = 1
continue
#> New value = 2
delete
seek start
watch -location pair.first
watch-if pair.first pair.first > 8
continue
#> New value = 1
disable 4
continue
#> New value = 9
enable 4
reverse-continue
#> watchpoint 4
reverse-continue
#> Old value = 8
delete
seek start
watch-if pair.first pair.first > 10
watch-if pair.first pair.first < 3
continue
#> New value = 1
continue
#> New value = 2
continue
#> New value = 11
reverse-continue
reverse-continue
print pair.first
#> = 1
delete
seek start
watch-if pair.first pair.first > 8
info breakpoints
#> stop only if $_bis_if
condition $bpnum
#> unconditional
continue
#> New value = 1
delete
seek start
watch-if pair pair.first > 8
watch -location pair.second
continue
#> New value = 2
continue
#> New value = 4
