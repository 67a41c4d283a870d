// RUN: dpuc opt --passes recognise-linear,merge-duplicates %s | filecheck %s

// CHECK-LABEL: func.func @matmul_add
// CHECK:       dpu.t.linear %x, {{%.*}} bias {{%.*}} : tensor<4xf32> : tensor<2x3x8xf32>, tensor<8x4xf32> -> tensor<2x3x4xf32>
// CHECK-NOT:   dpu.t.add
func.func @matmul_add(%x: tensor<2x3x8xf32>) -> tensor<2x3x4xf32> {
  %w = dpu.param "m::w" via ["transpose"] : tensor<8x4xf32>
  %b = dpu.param "m::b" : tensor<4xf32>
  %m = dpu.t.matmul %x, %w : tensor<2x3x8xf32>, tensor<8x4xf32> -> tensor<2x3x4xf32>
  %y = dpu.t.add %b, %m : tensor<4xf32>, tensor<2x3x4xf32> -> tensor<2x3x4xf32>
  func.return %y : tensor<2x3x4xf32>
}

// CHECK-LABEL: func.func @gemm
// CHECK:       dpu.param "m::w" via ["transpose"] : tensor<8x4xf32>
// CHECK:       dpu.t.linear %x
// CHECK-NOT:   dpu.t.gemm
func.func @gemm(%x: tensor<2x8xf32>) -> tensor<2x4xf32> {
  %w = dpu.param "m::w" : tensor<4x8xf32>
  %b = dpu.param "m::b" : tensor<4xf32>
  %y = dpu.t.gemm %x, %w plus %b : tensor<4xf32> trans_b : tensor<2x8xf32>, tensor<4x8xf32> -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}

// The product of two computed values is no linear layer; a bias whose product has a second reader stays outside.
// CHECK-LABEL: func.func @stays
// CHECK:       dpu.t.matmul %x, %z
// CHECK:       [[M:%.*]] = dpu.t.linear %x, {{%.*}} : tensor<2x3x8xf32>
// CHECK:       dpu.t.add [[M]]
func.func @stays(%x: tensor<2x3x8xf32>, %z: tensor<2x8x4xf32>) -> (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>) {
  %w = dpu.param "m::w" : tensor<8x4xf32>
  %b = dpu.param "m::b" : tensor<4xf32>
  %p = dpu.t.matmul %x, %z : tensor<2x3x8xf32>, tensor<2x8x4xf32> -> tensor<2x3x4xf32>
  %m = dpu.t.matmul %x, %w : tensor<2x3x8xf32>, tensor<8x4xf32> -> tensor<2x3x4xf32>
  %y = dpu.t.add %m, %b : tensor<2x3x4xf32>, tensor<4xf32> -> tensor<2x3x4xf32>
  func.return %p, %m, %y : tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>
}

// A Gemm between two reshapes of everything but the channels is a linear of the whole tensor.
// CHECK-LABEL: func.func @flat
// CHECK:       dpu.t.linear %x, {{%.*}} bias {{%.*}} : tensor<4xf32> : tensor<2x3x8xf32>, tensor<8x4xf32> -> tensor<2x3x4xf32>
// CHECK-NOT:   dpu.t.reshape
func.func @flat(%x: tensor<2x3x8xf32>) -> tensor<2x3x4xf32> {
  %w = dpu.param "m::w" : tensor<4x8xf32>
  %b = dpu.param "m::b" : tensor<4xf32>
  %f = dpu.t.reshape %x : tensor<2x3x8xf32> -> tensor<6x8xf32>
  %g = dpu.t.gemm %f, %w plus %b : tensor<4xf32> trans_b : tensor<6x8xf32>, tensor<4x8xf32> -> tensor<6x4xf32>
  %y = dpu.t.reshape %g : tensor<6x4xf32> -> tensor<2x3x4xf32>
  func.return %y : tensor<2x3x4xf32>
}

// Other rows come out than went in: the reshapes stay.
// CHECK-LABEL: func.func @not_flat
// CHECK:       dpu.t.reshape %x
// CHECK:       dpu.t.linear
// CHECK:       dpu.t.reshape
func.func @not_flat(%x: tensor<2x3x8xf32>) -> tensor<3x2x4xf32> {
  %w = dpu.param "m::w" : tensor<8x4xf32>
  %f = dpu.t.reshape %x : tensor<2x3x8xf32> -> tensor<6x8xf32>
  %g = dpu.t.gemm %f, %w : tensor<6x8xf32>, tensor<8x4xf32> -> tensor<6x4xf32>
  %y = dpu.t.reshape %g : tensor<6x4xf32> -> tensor<3x2x4xf32>
  func.return %y : tensor<3x2x4xf32>
}
