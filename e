/dev/fd/3: line 112: ../bis: No such file or directory
