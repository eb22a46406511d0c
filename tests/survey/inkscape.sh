#!/bin/bash
# inkscape draws a picture with text without a display, and writes a PNG, a PDF and plain SVG.
# needs: inkscape
# limit: 300
# stderr varies: warnings with process ids
# setup
echo '<svg xmlns="http://www.w3.org/2000/svg" width="90" height="60"><rect width="50" height="40" fill="red"/><text x="9" y="30">Hello</text></svg>' > a.svg
# record
export HOME=$PWD; inkscape a.svg --export-filename=a.png && inkscape a.svg --export-filename=a.pdf && inkscape a.svg --export-plain-svg --export-filename=b.svg; md5sum < a.png; wc -l < b.svg
# check
test -s a.png && test -s a.pdf && test -s b.svg
