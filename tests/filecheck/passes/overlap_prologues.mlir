// RUN: dpuc opt --passes overlap-prologues %s | filecheck %s

// The second block's prologue loads what the first block leaves alone: it goes ahead of the first block's main part.
// CHECK-LABEL: tile.program "moves"
// CHECK:       step 0 : i64 phase "prologue"
// CHECK:       step 1 : i64 phase "prologue"
// CHECK:       step 0 : i64 phase "main"
// CHECK:       step 1 : i64 phase "main"
tile.program "moves" {
  %x = tile.dram "x" "i8" row 64 kind "io" {shape = array<i64: 1, 2, 64>}
  %y = tile.dram "y" "i8" row 64 kind "io" {shape = array<i64: 1, 2, 64>}
  tile.section tile 0 op 1 stream 0 step 0 phase "prologue" name "/op"
  %a = tile.alloc 8 : i64 at -1 : i64 : !tile.buffer<"act">
  tile.load dst(%a) src(%x) <inner = 64, n = [1, 1, 1]>
  tile.section tile 0 op 1 stream 0 step 0 phase "main" name "/op"
  tile.store src(%a) dst(%y) <inner = 64, n = [1, 1, 1]>
  tile.section tile 0 op 1 stream 1 step 1 phase "prologue" name "/op"
  %b = tile.alloc 8 : i64 at -1 : i64 : !tile.buffer<"act">
  tile.load dst(%b) src(%x) <offset = 64, inner = 64, n = [1, 1, 1]>
  tile.section tile 0 op 1 stream 1 step 1 phase "main" name "/op"
  tile.store src(%b) dst(%y) <offset = 64, inner = 64, n = [1, 1, 1]>
}

// A main part in several sections: the prologue goes behind the first one, so that it holds up no weights.
// CHECK-LABEL: tile.program "behind_the_first_section"
// CHECK:       step 0 : i64 phase "main"
// CHECK:       step 1 : i64 phase "prologue"
// CHECK:       step 0 : i64 phase "main"
// CHECK:       offset = 64
// CHECK:       step 0 : i64 phase "main"
// CHECK:       offset = 128
tile.program "behind_the_first_section" {
  %x = tile.dram "x" "i8" row 64 kind "io" {shape = array<i64: 1, 2, 64>}
  %y = tile.dram "y" "i8" row 64 kind "io" {shape = array<i64: 1, 4, 64>}
  tile.section tile 0 op 1 stream 0 step 0 phase "main" name "/op"
  %a = tile.alloc 8 : i64 at -1 : i64 : !tile.buffer<"act">
  tile.load dst(%a) src(%x) <inner = 64, n = [1, 1, 1]>
  tile.store src(%a) dst(%y) <offset = 0, inner = 64, n = [1, 1, 1]>
  tile.section tile 0 op 1 stream 0 step 0 phase "main" name "/op"
  tile.store src(%a) dst(%y) <offset = 64, inner = 64, n = [1, 1, 1]>
  tile.section tile 0 op 1 stream 0 step 0 phase "main" name "/op"
  tile.store src(%a) dst(%y) <offset = 128, inner = 64, n = [1, 1, 1]>
  tile.section tile 0 op 1 stream 1 step 1 phase "prologue" name "/op"
  %b = tile.alloc 8 : i64 at -1 : i64 : !tile.buffer<"act">
  tile.load dst(%b) src(%x) <offset = 64, inner = 64, n = [1, 1, 1]>
}

// It reads what the main part before that stores: it goes to the middle.
// CHECK-LABEL: tile.program "in_the_middle"
// CHECK:       step 1 : i64 phase "main"
// CHECK:       step 1 : i64 phase "main"
// CHECK:       offset = 64
// CHECK:       step 2 : i64 phase "prologue"
// CHECK:       step 1 : i64 phase "main"
// CHECK:       offset = 128
tile.program "in_the_middle" {
  %x = tile.dram "x" "i8" row 64 kind "io" {shape = array<i64: 1, 2, 64>}
  %w = tile.dram "w" "i8" row 64 kind "work" {shape = array<i64: 1, 2, 64>}
  %y = tile.dram "y" "i8" row 64 kind "io" {shape = array<i64: 1, 4, 64>}
  tile.section tile 0 op 1 stream 0 step 0 phase "main" name "/op"
  %a = tile.alloc 8 : i64 at -1 : i64 : !tile.buffer<"act">
  tile.load dst(%a) src(%x) <inner = 64, n = [1, 1, 1]>
  tile.store src(%a) dst(%w) <inner = 64, n = [1, 1, 1]>
  tile.section tile 0 op 1 stream 1 step 1 phase "main" name "/op"
  %b = tile.alloc 8 : i64 at -1 : i64 : !tile.buffer<"act">
  tile.load dst(%b) src(%x) <inner = 64, n = [1, 1, 1]>
  tile.store src(%b) dst(%y) <offset = 0, inner = 64, n = [1, 1, 1]>
  tile.section tile 0 op 1 stream 1 step 1 phase "main" name "/op"
  tile.store src(%b) dst(%y) <offset = 64, inner = 64, n = [1, 1, 1]>
  tile.section tile 0 op 1 stream 1 step 1 phase "main" name "/op"
  tile.store src(%b) dst(%y) <offset = 128, inner = 64, n = [1, 1, 1]>
  tile.section tile 0 op 1 stream 1 step 1 phase "main" name "/op"
  tile.store src(%b) dst(%y) <offset = 192, inner = 64, n = [1, 1, 1]>
  tile.section tile 0 op 2 stream 0 step 2 phase "prologue" name "/next"
  %c = tile.alloc 8 : i64 at -1 : i64 : !tile.buffer<"act">
  tile.load dst(%c) src(%w) <inner = 64, n = [1, 1, 1]>
}

// Other bytes of the same tensor are no conflict, these are: the prologue stays where it is.
// CHECK-LABEL: tile.program "reads_what_main_stores"
// CHECK:       step 0 : i64 phase "main"
// CHECK:       tile.store
// CHECK:       step 1 : i64 phase "prologue"
tile.program "reads_what_main_stores" {
  %x = tile.dram "x" "i8" row 64 kind "io" {shape = array<i64: 1, 2, 64>}
  %y = tile.dram "y" "i8" row 64 kind "work" {shape = array<i64: 1, 2, 64>}
  tile.section tile 0 op 1 stream 0 step 0 phase "prologue" name "/op"
  %a = tile.alloc 8 : i64 at -1 : i64 : !tile.buffer<"act">
  tile.load dst(%a) src(%x) <inner = 64, n = [1, 1, 1]>
  tile.section tile 0 op 1 stream 0 step 0 phase "main" name "/op"
  tile.store src(%a) dst(%y) <inner = 32, n = [2, 1, 1], dstride = [96, 0, 0]>
  tile.section tile 0 op 2 stream 0 step 1 phase "prologue" name "/next"
  %b = tile.alloc 8 : i64 at -1 : i64 : !tile.buffer<"act">
  tile.load dst(%b) src(%y) <offset = 96, inner = 32, n = [1, 1, 1]>
}

// A prologue that uses a buffer of the main part stays, too.
// CHECK-LABEL: tile.program "uses_a_buffer_of_main"
// CHECK:       step 0 : i64 phase "main"
// CHECK:       step 1 : i64 phase "prologue"
tile.program "uses_a_buffer_of_main" {
  %x = tile.dram "x" "i8" row 64 kind "io" {shape = array<i64: 1, 2, 64>}
  %y = tile.dram "y" "i8" row 64 kind "io" {shape = array<i64: 1, 2, 64>}
  tile.section tile 0 op 1 stream 0 step 0 phase "main" name "/op"
  %a = tile.alloc 8 : i64 at -1 : i64 : !tile.buffer<"act">
  tile.load dst(%a) src(%x) <inner = 64, n = [1, 1, 1]>
  tile.section tile 0 op 1 stream 1 step 1 phase "prologue" name "/op"
  tile.store src(%a) dst(%y) <inner = 64, n = [1, 1, 1]>
}

// A buffer of an earlier block that the prologue overwrites and the main part still reads: it stays.
// CHECK-LABEL: tile.program "overwrites_what_main_reads"
// CHECK:       step 0 : i64 phase "main"
// CHECK:       step 1 : i64 phase "prologue"
tile.program "overwrites_what_main_reads" {
  %x = tile.dram "x" "i8" row 64 kind "io" {shape = array<i64: 1, 2, 64>}
  %y = tile.dram "y" "i8" row 64 kind "io" {shape = array<i64: 1, 2, 64>}
  tile.section tile 0 op 1 stream 0 step 0 phase "prologue" name "/op"
  %a = tile.alloc 8 : i64 at -1 : i64 : !tile.buffer<"act">
  tile.load dst(%a) src(%x) <inner = 64, n = [1, 1, 1]>
  tile.section tile 0 op 1 stream 0 step 0 phase "main" name "/op"
  tile.store src(%a) dst(%y) <inner = 64, n = [1, 1, 1]>
  tile.section tile 0 op 1 stream 1 step 1 phase "prologue" name "/op"
  tile.load dst(%a) src(%x) <offset = 64, inner = 64, n = [1, 1, 1]>
}
