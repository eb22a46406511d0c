//! A test suite, as it runs in a loop until it fails: each test is a program of its own, whose output is
//! compared with what is expected. All recordings but the first are of what is known already.

use std::fs;

use anyhow::{Result, ensure};

use crate::workload::{Job, Site};

pub fn prepare(site: &Site) -> Result<Job> {
    let tests = site.size(40, 2);
    for test in 0..tests {
        let program = format!(
            "import json, re, collections\n\ndata = [{{'key': n % {}, 'name': 'item %d' % n}} for n in range(2000)]\n\
             text = json.dumps(data)\ncounts = collections.Counter(item['key'] for item in json.loads(text))\n\
             print(sorted(counts.items()), len(re.findall(r'item \\d*{}\\b', text)))\n",
            test + 2,
            test % 10
        );
        fs::write(site.folder.join(format!("test{test}.py")), program)?;
    }
    let script = format!(
        "failed=0\nfor n in $(seq 0 {}); do\n  python3 test$n.py > out.$n || failed=1\n  if [ -e expected.$n ]; then \
         cmp -s out.$n expected.$n || failed=1; else cp out.$n expected.$n; fi\n  grep -q '^\\[(0, ' out.$n || \
         failed=1\n  echo \"test $n: $failed\"\ndone\nexit $failed\n",
        tests - 1
    );
    fs::write(site.folder.join("suite.sh"), script)?;
    Ok(Job::new(["sh", "suite.sh"]).check(move |step| {
        let text = String::from_utf8_lossy(&step.stdout);
        let passed = text.lines().filter(|line| line.ends_with(": 0")).count() as u64;
        ensure!(passed == tests, "{passed} of {tests} tests pass");
        Ok(())
    }))
}
