#!/bin/bash
# The Go compiler builds, and runs, a program with goroutines and a server.
# needs: go
# version: go version
# limit: 300
# setup
mkdir -p m && cd m && cat > go.mod <<'END'
module m
go 1.20
END
cat > main.go <<'END'
package main
import ("fmt"; "io"; "net/http"; "net/http/httptest"; "sync"; "sort"; "runtime")
func main() {
  s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "got "+r.URL.Path) }))
  defer s.Close()
  var wg sync.WaitGroup; var mu sync.Mutex; var all []string
  for i := 0; i < 8; i++ { wg.Add(1); go func(i int) { defer wg.Done()
    r, e := http.Get(fmt.Sprintf("%s/%d", s.URL, i)); if e != nil { panic(e) }
    b, _ := io.ReadAll(r.Body); mu.Lock(); all = append(all, string(b)); mu.Unlock() }(i) }
  wg.Wait(); sort.Strings(all); fmt.Println(all); runtime.GC()
  m := map[int]int{}; for i := 0; i < 300000; i++ { m[i*7919%10007]++ }; fmt.Println(len(m))
}
END
GOFLAGS=-mod=mod go build -o ../warm . 
# record
cd m && GOFLAGS=-mod=mod go vet . && go build -o ../prog . && ../prog
# check
grep -q '^10007$' "$OUT"
