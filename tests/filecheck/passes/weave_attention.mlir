// RUN: dpuc opt --passes weave-attention{arch=dpu_f2} %s | filecheck %s

// Op 1 is a linear whose products take 6,820 cycles, op 2 an attention: 7,296 cycles of exponentials a block, 1,824 of its
// scores. In stream 0 it runs between the products of the linear in stream 1, as these fill the array's waits.
// CHECK-LABEL: tile.program "under_the_linear_before"
// CHECK:       op 1 : i64 stream 0 : i64 step 0 : i64 phase "main"
// CHECK:       op 1 : i64 stream 0 : i64 step 0 : i64 phase "main"
// CHECK:       op 1 : i64 stream 1 : i64 step 1000 : i64 phase "main"
// CHECK:       op 2 : i64 stream 0 : i64 step 0 : i64 phase "prologue"
// CHECK:       op 2 : i64 stream 0 : i64 step 0 : i64 phase "main"
// CHECK:       op 1 : i64 stream 1 : i64 step 1000 : i64 phase "main"
// CHECK:       op 2 : i64 stream 0 : i64 step 0 : i64 phase "main"
// CHECK:       op 1 : i64 stream 1 : i64 step 1000 : i64 phase "main"
// CHECK:       op 2 : i64 stream 0 : i64 step 0 : i64 phase "main"
// CHECK:       op 1 : i64 stream 1 : i64 step 1000 : i64 phase "main"
// CHECK:       op 1 : i64 stream 1 : i64 step 1000 : i64 phase "main"
// CHECK:       op 2 : i64 stream 1 : i64 step 1000 : i64 phase "prologue"
// CHECK:       op 2 : i64 stream 1 : i64 step 1000 : i64 phase "main"
// CHECK:       op 2 : i64 stream 1 : i64 step 1000 : i64 phase "main"
tile.program "under_the_linear_before" {
  %x = tile.dram "x" "i8" row 64 kind "io" {shape = array<i64: 1, 2, 64>}
  %y = tile.dram "y" "i8" row 64 kind "io" {shape = array<i64: 1, 2, 64>}
  tile.section tile 0 op 1 stream 0 step 0 phase "main" name "/op1"
  %x10 = tile.alloc 6820 : i64 at -1 : i64 : !tile.buffer<"act">
  %w10 = tile.alloc 1280 : i64 at -1 : i64 : !tile.buffer<"wgt">
  %l100 = tile.alloc 341 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%x10) wgt(%w10) acc(%l100) <ny = 1, nx = 341, nc = 20, nn = 1, nky = 1, nkx = 1>
  tile.section tile 0 op 1 stream 0 step 0 phase "main" name "/op1"
  %l101 = tile.alloc 341 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%x10) wgt(%w10) acc(%l101) <ny = 1, nx = 341, nc = 20, nn = 1, nky = 1, nkx = 1>
  tile.section tile 0 op 1 stream 1 step 1000 phase "main" name "/op1"
  %x11 = tile.alloc 6820 : i64 at -1 : i64 : !tile.buffer<"act">
  %w11 = tile.alloc 1280 : i64 at -1 : i64 : !tile.buffer<"wgt">
  %l110 = tile.alloc 341 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%x11) wgt(%w11) acc(%l110) <ny = 1, nx = 341, nc = 20, nn = 1, nky = 1, nkx = 1>
  tile.section tile 0 op 1 stream 1 step 1000 phase "main" name "/op1"
  %l111 = tile.alloc 341 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%x11) wgt(%w11) acc(%l111) <ny = 1, nx = 341, nc = 20, nn = 1, nky = 1, nkx = 1>
  tile.section tile 0 op 1 stream 1 step 1000 phase "main" name "/op1"
  %l112 = tile.alloc 341 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%x11) wgt(%w11) acc(%l112) <ny = 1, nx = 341, nc = 20, nn = 1, nky = 1, nkx = 1>
  tile.section tile 0 op 1 stream 1 step 1000 phase "main" name "/op1"
  %l113 = tile.alloc 341 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%x11) wgt(%w11) acc(%l113) <ny = 1, nx = 341, nc = 20, nn = 1, nky = 1, nkx = 1>
  tile.section tile 0 op 1 stream 1 step 1000 phase "main" name "/op1"
  %z11 = tile.alloc 1 : i64 at -1 : i64 : !tile.buffer<"act">
  tile.store src(%z11) dst(%y) <offset = 0, inner = 64, n = [1, 1, 1]>
  tile.section tile 0 op 2 stream 0 step 0 phase "prologue" name "/op2"
  %q20 = tile.alloc 114 : i64 at -1 : i64 : !tile.buffer<"act">
  %k20 = tile.alloc 1024 : i64 at -1 : i64 : !tile.buffer<"wgt">
  %m20 = tile.alloc 114 : i64 at -1 : i64 : !tile.buffer<"param">
  %p20 = tile.alloc 1824 : i64 at -1 : i64 : !tile.buffer<"act">
  tile.load dst(%q20) src(%x) <offset = 0, inner = 64, n = [1, 1, 1]>
  tile.section tile 0 op 2 stream 0 step 0 phase "main" name "/op2"
  %s200 = tile.alloc 1824 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%q20) wgt(%k20) acc(%s200) rowmax_at(%m20) <ny = 1, nx = 114, nc = 1, nn = 16, nky = 1, nkx = 1, rowmax = 1>
  tile.vec a(%s200) d(%p20) <rows = 114, tiles = 16, valid = 64>
  tile.section tile 0 op 2 stream 0 step 0 phase "main" name "/op2"
  %s201 = tile.alloc 1824 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%q20) wgt(%k20) acc(%s201) rowmax_at(%m20) <ny = 1, nx = 114, nc = 1, nn = 16, nky = 1, nkx = 1, rowmax = 1>
  tile.vec a(%s201) d(%p20) <rows = 114, tiles = 16, valid = 64>
  tile.section tile 0 op 2 stream 0 step 0 phase "main" name "/op2"
  %s202 = tile.alloc 1824 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%q20) wgt(%k20) acc(%s202) rowmax_at(%m20) <ny = 1, nx = 114, nc = 1, nn = 16, nky = 1, nkx = 1, rowmax = 1>
  tile.vec a(%s202) d(%p20) <rows = 114, tiles = 16, valid = 64>
  tile.section tile 0 op 2 stream 1 step 1000 phase "prologue" name "/op2"
  %q21 = tile.alloc 114 : i64 at -1 : i64 : !tile.buffer<"act">
  %k21 = tile.alloc 1024 : i64 at -1 : i64 : !tile.buffer<"wgt">
  %m21 = tile.alloc 114 : i64 at -1 : i64 : !tile.buffer<"param">
  %p21 = tile.alloc 1824 : i64 at -1 : i64 : !tile.buffer<"act">
  tile.load dst(%q21) src(%x) <offset = 64, inner = 64, n = [1, 1, 1]>
  tile.section tile 0 op 2 stream 1 step 1000 phase "main" name "/op2"
  %s210 = tile.alloc 1824 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%q21) wgt(%k21) acc(%s210) rowmax_at(%m21) <ny = 1, nx = 114, nc = 1, nn = 16, nky = 1, nkx = 1, rowmax = 1>
  tile.vec a(%s210) d(%p21) <rows = 114, tiles = 16, valid = 64>
  tile.section tile 0 op 2 stream 1 step 1000 phase "main" name "/op2"
  %s211 = tile.alloc 1824 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%q21) wgt(%k21) acc(%s211) rowmax_at(%m21) <ny = 1, nx = 114, nc = 1, nn = 16, nky = 1, nkx = 1, rowmax = 1>
  tile.vec a(%s211) d(%p21) <rows = 114, tiles = 16, valid = 64>
}

// The same, but the attention reads what the linear in the other stream stores: it stays behind it.
// CHECK-LABEL: tile.program "reads_what_the_linear_stores"
// CHECK:       op 1 : i64 stream 0 : i64 step 0 : i64 phase "main"
// CHECK:       op 1 : i64 stream 0 : i64 step 0 : i64 phase "main"
// CHECK:       op 1 : i64 stream 1 : i64 step 1000 : i64 phase "main"
// CHECK:       op 1 : i64 stream 1 : i64 step 1000 : i64 phase "main"
// CHECK:       op 1 : i64 stream 1 : i64 step 1000 : i64 phase "main"
// CHECK:       op 1 : i64 stream 1 : i64 step 1000 : i64 phase "main"
// CHECK:       op 1 : i64 stream 1 : i64 step 1000 : i64 phase "main"
// CHECK:       op 2 : i64 stream 0 : i64 step 0 : i64 phase "prologue"
// CHECK:       op 2 : i64 stream 0 : i64 step 0 : i64 phase "main"
// CHECK:       op 2 : i64 stream 0 : i64 step 0 : i64 phase "main"
// CHECK:       op 2 : i64 stream 0 : i64 step 0 : i64 phase "main"
// CHECK:       op 2 : i64 stream 1 : i64 step 1000 : i64 phase "prologue"
// CHECK:       op 2 : i64 stream 1 : i64 step 1000 : i64 phase "main"
// CHECK:       op 2 : i64 stream 1 : i64 step 1000 : i64 phase "main"
tile.program "reads_what_the_linear_stores" {
  %x = tile.dram "x" "i8" row 64 kind "io" {shape = array<i64: 1, 2, 64>}
  %y = tile.dram "y" "i8" row 64 kind "io" {shape = array<i64: 1, 2, 64>}
  tile.section tile 0 op 1 stream 0 step 0 phase "main" name "/op1"
  %x10 = tile.alloc 6820 : i64 at -1 : i64 : !tile.buffer<"act">
  %w10 = tile.alloc 1280 : i64 at -1 : i64 : !tile.buffer<"wgt">
  %l100 = tile.alloc 341 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%x10) wgt(%w10) acc(%l100) <ny = 1, nx = 341, nc = 20, nn = 1, nky = 1, nkx = 1>
  tile.section tile 0 op 1 stream 0 step 0 phase "main" name "/op1"
  %l101 = tile.alloc 341 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%x10) wgt(%w10) acc(%l101) <ny = 1, nx = 341, nc = 20, nn = 1, nky = 1, nkx = 1>
  tile.section tile 0 op 1 stream 1 step 1000 phase "main" name "/op1"
  %x11 = tile.alloc 6820 : i64 at -1 : i64 : !tile.buffer<"act">
  %w11 = tile.alloc 1280 : i64 at -1 : i64 : !tile.buffer<"wgt">
  %l110 = tile.alloc 341 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%x11) wgt(%w11) acc(%l110) <ny = 1, nx = 341, nc = 20, nn = 1, nky = 1, nkx = 1>
  tile.section tile 0 op 1 stream 1 step 1000 phase "main" name "/op1"
  %l111 = tile.alloc 341 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%x11) wgt(%w11) acc(%l111) <ny = 1, nx = 341, nc = 20, nn = 1, nky = 1, nkx = 1>
  tile.section tile 0 op 1 stream 1 step 1000 phase "main" name "/op1"
  %l112 = tile.alloc 341 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%x11) wgt(%w11) acc(%l112) <ny = 1, nx = 341, nc = 20, nn = 1, nky = 1, nkx = 1>
  tile.section tile 0 op 1 stream 1 step 1000 phase "main" name "/op1"
  %l113 = tile.alloc 341 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%x11) wgt(%w11) acc(%l113) <ny = 1, nx = 341, nc = 20, nn = 1, nky = 1, nkx = 1>
  tile.section tile 0 op 1 stream 1 step 1000 phase "main" name "/op1"
  %z11 = tile.alloc 1 : i64 at -1 : i64 : !tile.buffer<"act">
  tile.store src(%z11) dst(%y) <offset = 0, inner = 64, n = [1, 1, 1]>
  tile.section tile 0 op 2 stream 0 step 0 phase "prologue" name "/op2"
  %q20 = tile.alloc 114 : i64 at -1 : i64 : !tile.buffer<"act">
  %k20 = tile.alloc 1024 : i64 at -1 : i64 : !tile.buffer<"wgt">
  %m20 = tile.alloc 114 : i64 at -1 : i64 : !tile.buffer<"param">
  %p20 = tile.alloc 1824 : i64 at -1 : i64 : !tile.buffer<"act">
  tile.load dst(%q20) src(%y) <offset = 0, inner = 64, n = [1, 1, 1]>
  tile.section tile 0 op 2 stream 0 step 0 phase "main" name "/op2"
  %s200 = tile.alloc 1824 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%q20) wgt(%k20) acc(%s200) rowmax_at(%m20) <ny = 1, nx = 114, nc = 1, nn = 16, nky = 1, nkx = 1, rowmax = 1>
  tile.vec a(%s200) d(%p20) <rows = 114, tiles = 16, valid = 64>
  tile.section tile 0 op 2 stream 0 step 0 phase "main" name "/op2"
  %s201 = tile.alloc 1824 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%q20) wgt(%k20) acc(%s201) rowmax_at(%m20) <ny = 1, nx = 114, nc = 1, nn = 16, nky = 1, nkx = 1, rowmax = 1>
  tile.vec a(%s201) d(%p20) <rows = 114, tiles = 16, valid = 64>
  tile.section tile 0 op 2 stream 0 step 0 phase "main" name "/op2"
  %s202 = tile.alloc 1824 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%q20) wgt(%k20) acc(%s202) rowmax_at(%m20) <ny = 1, nx = 114, nc = 1, nn = 16, nky = 1, nkx = 1, rowmax = 1>
  tile.vec a(%s202) d(%p20) <rows = 114, tiles = 16, valid = 64>
  tile.section tile 0 op 2 stream 1 step 1000 phase "prologue" name "/op2"
  %q21 = tile.alloc 114 : i64 at -1 : i64 : !tile.buffer<"act">
  %k21 = tile.alloc 1024 : i64 at -1 : i64 : !tile.buffer<"wgt">
  %m21 = tile.alloc 114 : i64 at -1 : i64 : !tile.buffer<"param">
  %p21 = tile.alloc 1824 : i64 at -1 : i64 : !tile.buffer<"act">
  tile.load dst(%q21) src(%y) <offset = 64, inner = 64, n = [1, 1, 1]>
  tile.section tile 0 op 2 stream 1 step 1000 phase "main" name "/op2"
  %s210 = tile.alloc 1824 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%q21) wgt(%k21) acc(%s210) rowmax_at(%m21) <ny = 1, nx = 114, nc = 1, nn = 16, nky = 1, nkx = 1, rowmax = 1>
  tile.vec a(%s210) d(%p21) <rows = 114, tiles = 16, valid = 64>
  tile.section tile 0 op 2 stream 1 step 1000 phase "main" name "/op2"
  %s211 = tile.alloc 1824 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%q21) wgt(%k21) acc(%s211) rowmax_at(%m21) <ny = 1, nx = 114, nc = 1, nn = 16, nky = 1, nkx = 1, rowmax = 1>
  tile.vec a(%s211) d(%p21) <rows = 114, tiles = 16, valid = 64>
}

// Blocks of scores that take the vector unit less than a product of the linear takes the array: nothing would be gained.
// CHECK-LABEL: tile.program "short_scores"
// CHECK:       op 1 : i64 stream 0 : i64 step 0 : i64 phase "main"
// CHECK:       op 1 : i64 stream 0 : i64 step 0 : i64 phase "main"
// CHECK:       op 1 : i64 stream 1 : i64 step 1000 : i64 phase "main"
// CHECK:       op 1 : i64 stream 1 : i64 step 1000 : i64 phase "main"
// CHECK:       op 1 : i64 stream 1 : i64 step 1000 : i64 phase "main"
// CHECK:       op 1 : i64 stream 1 : i64 step 1000 : i64 phase "main"
// CHECK:       op 1 : i64 stream 1 : i64 step 1000 : i64 phase "main"
// CHECK:       op 2 : i64 stream 0 : i64 step 0 : i64 phase "prologue"
// CHECK:       op 2 : i64 stream 0 : i64 step 0 : i64 phase "main"
// CHECK:       op 2 : i64 stream 0 : i64 step 0 : i64 phase "main"
// CHECK:       op 2 : i64 stream 0 : i64 step 0 : i64 phase "main"
// CHECK:       op 2 : i64 stream 1 : i64 step 1000 : i64 phase "prologue"
// CHECK:       op 2 : i64 stream 1 : i64 step 1000 : i64 phase "main"
// CHECK:       op 2 : i64 stream 1 : i64 step 1000 : i64 phase "main"
tile.program "short_scores" {
  %x = tile.dram "x" "i8" row 64 kind "io" {shape = array<i64: 1, 2, 64>}
  %y = tile.dram "y" "i8" row 64 kind "io" {shape = array<i64: 1, 2, 64>}
  tile.section tile 0 op 1 stream 0 step 0 phase "main" name "/op1"
  %x10 = tile.alloc 6820 : i64 at -1 : i64 : !tile.buffer<"act">
  %w10 = tile.alloc 1280 : i64 at -1 : i64 : !tile.buffer<"wgt">
  %l100 = tile.alloc 341 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%x10) wgt(%w10) acc(%l100) <ny = 1, nx = 341, nc = 20, nn = 1, nky = 1, nkx = 1>
  tile.section tile 0 op 1 stream 0 step 0 phase "main" name "/op1"
  %l101 = tile.alloc 341 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%x10) wgt(%w10) acc(%l101) <ny = 1, nx = 341, nc = 20, nn = 1, nky = 1, nkx = 1>
  tile.section tile 0 op 1 stream 1 step 1000 phase "main" name "/op1"
  %x11 = tile.alloc 6820 : i64 at -1 : i64 : !tile.buffer<"act">
  %w11 = tile.alloc 1280 : i64 at -1 : i64 : !tile.buffer<"wgt">
  %l110 = tile.alloc 341 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%x11) wgt(%w11) acc(%l110) <ny = 1, nx = 341, nc = 20, nn = 1, nky = 1, nkx = 1>
  tile.section tile 0 op 1 stream 1 step 1000 phase "main" name "/op1"
  %l111 = tile.alloc 341 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%x11) wgt(%w11) acc(%l111) <ny = 1, nx = 341, nc = 20, nn = 1, nky = 1, nkx = 1>
  tile.section tile 0 op 1 stream 1 step 1000 phase "main" name "/op1"
  %l112 = tile.alloc 341 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%x11) wgt(%w11) acc(%l112) <ny = 1, nx = 341, nc = 20, nn = 1, nky = 1, nkx = 1>
  tile.section tile 0 op 1 stream 1 step 1000 phase "main" name "/op1"
  %l113 = tile.alloc 341 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%x11) wgt(%w11) acc(%l113) <ny = 1, nx = 341, nc = 20, nn = 1, nky = 1, nkx = 1>
  tile.section tile 0 op 1 stream 1 step 1000 phase "main" name "/op1"
  %z11 = tile.alloc 1 : i64 at -1 : i64 : !tile.buffer<"act">
  tile.store src(%z11) dst(%y) <offset = 0, inner = 64, n = [1, 1, 1]>
  tile.section tile 0 op 2 stream 0 step 0 phase "prologue" name "/op2"
  %q20 = tile.alloc 114 : i64 at -1 : i64 : !tile.buffer<"act">
  %k20 = tile.alloc 1024 : i64 at -1 : i64 : !tile.buffer<"wgt">
  %m20 = tile.alloc 114 : i64 at -1 : i64 : !tile.buffer<"param">
  %p20 = tile.alloc 912 : i64 at -1 : i64 : !tile.buffer<"act">
  tile.load dst(%q20) src(%x) <offset = 0, inner = 64, n = [1, 1, 1]>
  tile.section tile 0 op 2 stream 0 step 0 phase "main" name "/op2"
  %s200 = tile.alloc 912 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%q20) wgt(%k20) acc(%s200) rowmax_at(%m20) <ny = 1, nx = 114, nc = 1, nn = 8, nky = 1, nkx = 1, rowmax = 1>
  tile.vec a(%s200) d(%p20) <rows = 114, tiles = 8, valid = 64>
  tile.section tile 0 op 2 stream 0 step 0 phase "main" name "/op2"
  %s201 = tile.alloc 912 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%q20) wgt(%k20) acc(%s201) rowmax_at(%m20) <ny = 1, nx = 114, nc = 1, nn = 8, nky = 1, nkx = 1, rowmax = 1>
  tile.vec a(%s201) d(%p20) <rows = 114, tiles = 8, valid = 64>
  tile.section tile 0 op 2 stream 0 step 0 phase "main" name "/op2"
  %s202 = tile.alloc 912 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%q20) wgt(%k20) acc(%s202) rowmax_at(%m20) <ny = 1, nx = 114, nc = 1, nn = 8, nky = 1, nkx = 1, rowmax = 1>
  tile.vec a(%s202) d(%p20) <rows = 114, tiles = 8, valid = 64>
  tile.section tile 0 op 2 stream 1 step 1000 phase "prologue" name "/op2"
  %q21 = tile.alloc 114 : i64 at -1 : i64 : !tile.buffer<"act">
  %k21 = tile.alloc 1024 : i64 at -1 : i64 : !tile.buffer<"wgt">
  %m21 = tile.alloc 114 : i64 at -1 : i64 : !tile.buffer<"param">
  %p21 = tile.alloc 912 : i64 at -1 : i64 : !tile.buffer<"act">
  tile.load dst(%q21) src(%x) <offset = 64, inner = 64, n = [1, 1, 1]>
  tile.section tile 0 op 2 stream 1 step 1000 phase "main" name "/op2"
  %s210 = tile.alloc 912 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%q21) wgt(%k21) acc(%s210) rowmax_at(%m21) <ny = 1, nx = 114, nc = 1, nn = 8, nky = 1, nkx = 1, rowmax = 1>
  tile.vec a(%s210) d(%p21) <rows = 114, tiles = 8, valid = 64>
  tile.section tile 0 op 2 stream 1 step 1000 phase "main" name "/op2"
  %s211 = tile.alloc 912 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%q21) wgt(%k21) acc(%s211) rowmax_at(%m21) <ny = 1, nx = 114, nc = 1, nn = 8, nky = 1, nkx = 1, rowmax = 1>
  tile.vec a(%s211) d(%p21) <rows = 114, tiles = 8, valid = 64>
}

// Op 3 is the linear behind: in stream 0 it begins under the attention of stream 1, its prologue three turns after it. The
// last third stays behind, for the prologue of stream 1.
// CHECK-LABEL: tile.program "under_the_linear_behind"
// CHECK:       op 2 : i64 stream 0 : i64 step 0 : i64 phase "prologue"
// CHECK:       op 2 : i64 stream 0 : i64 step 0 : i64 phase "main"
// CHECK:       op 2 : i64 stream 1 : i64 step 1000 : i64 phase "prologue"
// CHECK:       op 2 : i64 stream 1 : i64 step 1000 : i64 phase "main"
// CHECK:       op 2 : i64 stream 1 : i64 step 1000 : i64 phase "main"
// CHECK:       op 2 : i64 stream 1 : i64 step 1000 : i64 phase "main"
// CHECK:       op 3 : i64 stream 0 : i64 step 0 : i64 phase "prologue"
// CHECK:       op 2 : i64 stream 1 : i64 step 1000 : i64 phase "main"
// CHECK:       op 2 : i64 stream 1 : i64 step 1000 : i64 phase "main"
// CHECK:       op 3 : i64 stream 0 : i64 step 0 : i64 phase "main"
// CHECK:       op 2 : i64 stream 1 : i64 step 1000 : i64 phase "main"
// CHECK:       op 3 : i64 stream 0 : i64 step 0 : i64 phase "main"
// CHECK:       op 3 : i64 stream 0 : i64 step 0 : i64 phase "main"
// CHECK:       op 3 : i64 stream 1 : i64 step 1000 : i64 phase "main"
tile.program "under_the_linear_behind" {
  %x = tile.dram "x" "i8" row 64 kind "io" {shape = array<i64: 1, 2, 64>}
  %y = tile.dram "y" "i8" row 64 kind "io" {shape = array<i64: 1, 2, 64>}
  tile.section tile 0 op 2 stream 0 step 0 phase "prologue" name "/op2"
  %q20 = tile.alloc 114 : i64 at -1 : i64 : !tile.buffer<"act">
  %k20 = tile.alloc 1024 : i64 at -1 : i64 : !tile.buffer<"wgt">
  %m20 = tile.alloc 114 : i64 at -1 : i64 : !tile.buffer<"param">
  %p20 = tile.alloc 1824 : i64 at -1 : i64 : !tile.buffer<"act">
  tile.load dst(%q20) src(%x) <offset = 0, inner = 64, n = [1, 1, 1]>
  tile.section tile 0 op 2 stream 0 step 0 phase "main" name "/op2"
  %s200 = tile.alloc 1824 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%q20) wgt(%k20) acc(%s200) rowmax_at(%m20) <ny = 1, nx = 114, nc = 1, nn = 16, nky = 1, nkx = 1, rowmax = 1>
  tile.vec a(%s200) d(%p20) <rows = 114, tiles = 16, valid = 64>
  tile.section tile 0 op 2 stream 1 step 1000 phase "prologue" name "/op2"
  %q21 = tile.alloc 114 : i64 at -1 : i64 : !tile.buffer<"act">
  %k21 = tile.alloc 1024 : i64 at -1 : i64 : !tile.buffer<"wgt">
  %m21 = tile.alloc 114 : i64 at -1 : i64 : !tile.buffer<"param">
  %p21 = tile.alloc 1824 : i64 at -1 : i64 : !tile.buffer<"act">
  tile.load dst(%q21) src(%x) <offset = 64, inner = 64, n = [1, 1, 1]>
  tile.section tile 0 op 2 stream 1 step 1000 phase "main" name "/op2"
  %s210 = tile.alloc 1824 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%q21) wgt(%k21) acc(%s210) rowmax_at(%m21) <ny = 1, nx = 114, nc = 1, nn = 16, nky = 1, nkx = 1, rowmax = 1>
  tile.vec a(%s210) d(%p21) <rows = 114, tiles = 16, valid = 64>
  tile.section tile 0 op 2 stream 1 step 1000 phase "main" name "/op2"
  %s211 = tile.alloc 1824 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%q21) wgt(%k21) acc(%s211) rowmax_at(%m21) <ny = 1, nx = 114, nc = 1, nn = 16, nky = 1, nkx = 1, rowmax = 1>
  tile.vec a(%s211) d(%p21) <rows = 114, tiles = 16, valid = 64>
  tile.section tile 0 op 2 stream 1 step 1000 phase "main" name "/op2"
  %s212 = tile.alloc 1824 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%q21) wgt(%k21) acc(%s212) rowmax_at(%m21) <ny = 1, nx = 114, nc = 1, nn = 16, nky = 1, nkx = 1, rowmax = 1>
  tile.vec a(%s212) d(%p21) <rows = 114, tiles = 16, valid = 64>
  tile.section tile 0 op 2 stream 1 step 1000 phase "main" name "/op2"
  %s213 = tile.alloc 1824 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%q21) wgt(%k21) acc(%s213) rowmax_at(%m21) <ny = 1, nx = 114, nc = 1, nn = 16, nky = 1, nkx = 1, rowmax = 1>
  tile.vec a(%s213) d(%p21) <rows = 114, tiles = 16, valid = 64>
  tile.section tile 0 op 2 stream 1 step 1000 phase "main" name "/op2"
  %s214 = tile.alloc 1824 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%q21) wgt(%k21) acc(%s214) rowmax_at(%m21) <ny = 1, nx = 114, nc = 1, nn = 16, nky = 1, nkx = 1, rowmax = 1>
  tile.vec a(%s214) d(%p21) <rows = 114, tiles = 16, valid = 64>
  tile.section tile 0 op 2 stream 1 step 1000 phase "main" name "/op2"
  %s215 = tile.alloc 1824 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%q21) wgt(%k21) acc(%s215) rowmax_at(%m21) <ny = 1, nx = 114, nc = 1, nn = 16, nky = 1, nkx = 1, rowmax = 1>
  tile.vec a(%s215) d(%p21) <rows = 114, tiles = 16, valid = 64>
  tile.section tile 0 op 3 stream 0 step 0 phase "prologue" name "/op3"
  %r = tile.alloc 8 : i64 at -1 : i64 : !tile.buffer<"vbuf">
  tile.load dst(%r) src(%x) <inner = 64, n = [1, 1, 1]>
  tile.section tile 0 op 3 stream 0 step 0 phase "main" name "/op3"
  %x30 = tile.alloc 6820 : i64 at -1 : i64 : !tile.buffer<"act">
  %w30 = tile.alloc 1280 : i64 at -1 : i64 : !tile.buffer<"wgt">
  %l300 = tile.alloc 341 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%x30) wgt(%w30) acc(%l300) <ny = 1, nx = 341, nc = 20, nn = 1, nky = 1, nkx = 1>
  tile.section tile 0 op 3 stream 0 step 0 phase "main" name "/op3"
  %l301 = tile.alloc 341 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%x30) wgt(%w30) acc(%l301) <ny = 1, nx = 341, nc = 20, nn = 1, nky = 1, nkx = 1>
  tile.section tile 0 op 3 stream 0 step 0 phase "main" name "/op3"
  %l302 = tile.alloc 341 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%x30) wgt(%w30) acc(%l302) <ny = 1, nx = 341, nc = 20, nn = 1, nky = 1, nkx = 1>
  tile.section tile 0 op 3 stream 1 step 1000 phase "main" name "/op3"
  %x31 = tile.alloc 6820 : i64 at -1 : i64 : !tile.buffer<"act">
  %w31 = tile.alloc 1280 : i64 at -1 : i64 : !tile.buffer<"wgt">
  %l310 = tile.alloc 341 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%x31) wgt(%w31) acc(%l310) <ny = 1, nx = 341, nc = 20, nn = 1, nky = 1, nkx = 1>
}
