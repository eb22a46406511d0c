#!/bin/bash
# R: a regression, a plot, two forked workers.
# needs: Rscript
# limit: 240
# setup
cat > a.R <<'END'
set.seed(1); x <- rnorm(1000); y <- 2 * x + rnorm(1000); print(coef(lm(y ~ x)))
pdf("plot.pdf"); plot(x, y); invisible(dev.off())
print(unlist(parallel::mclapply(1:4, function(i) sum((1:10000) * i), mc.cores = 2)))
print(system("echo sub", intern = TRUE))
END
# record
Rscript a.R
# check
test -s plot.pdf && grep -q sub "$OUT"
