# watch-if with commands, which go on by themselves.
# program: calls.c
tbreak main
continue
watch-if made made % 100 == 0
commands
print made + 1
continue
end
display made
continue
#> New value = 100
#> one at
#> = 101
#> New value = 200
#> = 201
#> exited with status 0
delete
reverse-continue
#> No more reverse-execution history
watch-if made made == 30
continue
#> New value = 30
#> #0
#> made = 30
