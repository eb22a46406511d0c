#!/bin/bash
# GHC compiles a program with its threaded runtime, and the program runs on two capabilities, with its timer.
# needs: ghc
# limit: 500
# setup
cat > a.hs <<'END'
import Control.Concurrent
import Control.Monad
import qualified Data.Map as M
main = do
  vs <- forM [1 .. 4] $ \i -> do { v <- newEmptyMVar; _ <- forkIO (putMVar v $! sum [1 .. i * 100000 :: Int]); return v }
  mapM takeMVar vs >>= print
  print (M.size (M.fromListWith (+) [(i * 7 `mod` 1009, 1 :: Int) | i <- [1 .. 50000 :: Int]]))
END
# record
ghc -v0 -O -threaded -rtsopts a.hs && ./a +RTS -N2
# check
grep -q '^1009$' "$OUT"
