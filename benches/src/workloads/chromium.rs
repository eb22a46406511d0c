//! Chromium without a window: it loads a local page, runs its script, and prints what the page is then.

use std::fs;

use anyhow::{Result, ensure};

use crate::workload::{Job, Site};

const PAGE: &str = "<html><body><h1 id=a>not yet</h1><canvas id=c width=64 height=64></canvas><script>
const numbers = Array.from({length: 1000}, (_, i) => i * i).filter(n => n % 7 == 2);
const c = document.getElementById('c').getContext('2d');
c.fillStyle = 'red';
c.fillRect(0, 0, 32, 64);
const [red] = c.getImageData(5, 5, 1, 1).data;
setTimeout(() => { document.getElementById('a').textContent = `made ${numbers.length} ${red}`; }, 20);
</script></body></html>
";

pub fn prepare(site: &Site) -> Result<Job> {
    fs::write(site.folder.join("page.html"), PAGE)?;
    let script = "rm -rf profile; exec chromium --headless --no-sandbox --disable-gpu --user-data-dir=\"$PWD/profile\" \
                  --virtual-time-budget=500 --dump-dom \"file://$PWD/page.html\" 2>/dev/null";
    Ok(Job::new(["sh", "-c", script]).check(|step| {
        let text = String::from_utf8_lossy(&step.stdout);
        ensure!(text.contains(">made 286 255<"), "the page is {text:?}");
        Ok(())
    }))
}
