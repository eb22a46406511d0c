# Each checkpoint has a copy of its own of shared memory, however many files were mapped since.
# program: shared_and_many_files.c
break round_ends if round == 20
continue
#> round_ends (round=20)
print *pieces[0]
#> = 20
break round_ends if round == 28
continue
#> round_ends (round=28)
print *pieces[0]
#> = 28
reverse-continue
#> round_ends (round=20)
print *pieces[0]
#> = 20
print *pieces[2]
#> = 1540
delete
break round_ends if round == 19
reverse-continue
#> round_ends (round=19)
print *pieces[0]
#> = 19
