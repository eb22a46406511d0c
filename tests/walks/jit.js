// Code that is made at run time, and threads.
// modes: default
// short
function work(n) {
    let x = 1;
    for (let i = 0; i < n; i++)
        x = (x * 31 + i) % 1000003;
    return x;
}
let sum = 0;
for (let i = 0; i < 200; i++)
    sum += work(2000);
console.log(sum, [3, 1, 2].map(x => work(x)).sort().join());
