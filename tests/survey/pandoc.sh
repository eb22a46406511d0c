#!/bin/bash
# pandoc, a large program of GHC, turns Markdown into HTML and LaTeX.
# needs: pandoc
# limit: 240
# record
printf '# A\n\n* b\n* c\n\n| x | y |\n|---|---|\n| 1 | 2 |\n' > a.md; pandoc a.md; pandoc -t latex a.md; pandoc -o a.docx a.md && pandoc a.docx -t plain
# check
grep -q '<h1' "$OUT"
