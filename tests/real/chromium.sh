#!/bin/bash
# Thirty processes, a text of 236 MB of which the file tells nearly nothing, and a compiler at run time.
# needs: chromium
# package: chromium
# limit: 600
# setup
cat > page.html <<'END'
<html><body><h1 id=a>not yet</h1><canvas id=c width=64 height=64></canvas><script>
const numbers = Array.from({length: 1000}, (_, i) => i * i).filter(n => n % 7 == 2);
const c = document.getElementById('c').getContext('2d');
c.fillStyle = 'red';
c.fillRect(0, 0, 32, 64);
const [red] = c.getImageData(5, 5, 1, 1).data;
setTimeout(() => {
  document.getElementById('a').textContent = `made ${numbers.length} ${red} at ${Date.now() > 0}`;
}, 20);
</script></body></html>
END
# record
exec chromium --headless --no-sandbox --disable-gpu --user-data-dir="$PWD/profile" --virtual-time-budget=500 --dump-dom "file://$PWD/page.html" 2>/dev/null
# check
grep -q '>made 286 255 at true<' "$OUT"
