#!/bin/bash
# lighttpd with four clients at once, a CGI program, a graceful restart of nothing and an orderly end.
# needs: lighttpd curl
# package: lighttpd
# stderr varies: the server logs times
# setup
mkdir www cgi; seq 20000 > www/a.txt
printf '#!/bin/sh\necho "Content-Type: text/plain"; echo; echo "cgi $QUERY_STRING"\n' > www/x.cgi; chmod 755 www/x.cgi
cat > l.conf <<END
server.document-root = "$PWD/www"
server.bind = "127.0.0.1"
server.port = 8421
server.modules = ("mod_cgi", "mod_deflate")
cgi.assign = (".cgi" => "/bin/sh")
deflate.mimetypes = ("text/")
deflate.allowed-encodings = ("gzip")
mimetype.assign = (".txt" => "text/plain")
END
cat > inside.sh <<'END'
lighttpd -D -f l.conf & s=$!
for _ in $(seq 100); do curl -sf http://127.0.0.1:8421/a.txt > /dev/null && break; sleep 0.1; done
for i in 1 2 3 4; do curl -s --compressed http://127.0.0.1:8421/a.txt | md5sum & p="$p $!"; done; wait $p
curl -s 'http://127.0.0.1:8421/x.cgi?q=3'; curl -s -r 100-120 http://127.0.0.1:8421/a.txt | wc -c
kill -INT $s; wait $s; echo end $?
END
# record
exec bash inside.sh
# check
grep -q '^cgi q=3' "$OUT" && grep -q '^end 0' "$OUT"
