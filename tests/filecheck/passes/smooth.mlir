// RUN: dpuc opt --passes smooth{factor=2.0} %s | filecheck %s

// LayerNorm's gamma and beta are divided, the weights of all that read it are multiplied.
// CHECK-LABEL: func.func @normed
// CHECK:       [[GAMMA:%\d+]] = dpu.param "derived::unet::gamma smoothed 1" : tensor<4xf32>
// CHECK-NEXT:  [[BETA:%\d+]] = dpu.param "derived::unet::beta smoothed 2" : tensor<4xf32>
// CHECK-NEXT:  [[N:%[a-z]+]] = dpu.layer_norm %x, [[GAMMA]], [[BETA]]
// CHECK-NEXT:  [[A:%\d+]] = dpu.param "derived::unet::a smoothed 3" : tensor<4x4xf32>
// CHECK-NEXT:  dpu.linear [[N]], [[A]] :
// CHECK-NEXT:  [[B:%\d+]] = dpu.param "derived::unet::b smoothed 4" : tensor<4x4xf32>
// CHECK-NEXT:  dpu.linear [[N]], [[B]] :
func.func @normed(%x: tensor<1x3x4xf32>) -> (tensor<1x3x4xf32>, tensor<1x3x4xf32>) {
  %gamma = dpu.param "gamma" : tensor<4xf32>
  %beta = dpu.param "beta" : tensor<4xf32>
  %a = dpu.param "a" : tensor<4x4xf32>
  %b = dpu.param "b" : tensor<4x4xf32>
  %n = dpu.layer_norm %x, %gamma, %beta eps 1.0e-05 : f32 : tensor<1x3x4xf32>, tensor<4xf32>, tensor<4xf32> -> tensor<1x3x4xf32>
  %y = dpu.linear %n, %a : tensor<1x3x4xf32>, tensor<4x4xf32> -> tensor<1x3x4xf32>
  %z = dpu.linear %n, %b : tensor<1x3x4xf32>, tensor<4x4xf32> -> tensor<1x3x4xf32>
  func.return %y, %z : tensor<1x3x4xf32>, tensor<1x3x4xf32>
}

// The value half of GEGLU and its bias; values of an attention that another function makes.
// CHECK-LABEL: func.func @context
// CHECK:       [[V:%\d+]] = dpu.param "derived::unet::v smoothed 8" : tensor<4x4xf32>
// CHECK-NEXT:  dpu.linear %text, [[V]] :
func.func @context(%text: tensor<1x5x4xf32> {dpu.name = "text"}) -> (tensor<1x5x4xf32> {dpu.name = "v"}) {
  %w = dpu.param "v" : tensor<4x4xf32>
  %v = dpu.linear %text, %w : tensor<1x5x4xf32>, tensor<4x4xf32> -> tensor<1x5x4xf32>
  func.return %v : tensor<1x5x4xf32>
}

// CHECK-LABEL: func.func @unet
// CHECK:       [[UP:%\d+]] = dpu.param "derived::unet::up smoothed 5" : tensor<4x8xf32>
// CHECK-NEXT:  [[BIAS:%\d+]] = dpu.param "derived::unet::bias smoothed 6" : tensor<8xf32>
// CHECK-NEXT:  [[H:%[a-z]+]] = dpu.linear %x, [[UP]] bias [[BIAS]] : tensor<8xf32> geglu
// CHECK-NEXT:  [[DOWN:%\d+]] = dpu.param "derived::unet::down smoothed 7" : tensor<4x4xf32>
// CHECK-NEXT:  dpu.linear [[H]], [[DOWN]] :
// CHECK:       [[O:%[a-z]+]] = dpu.attention
// CHECK-NEXT:  [[OUT:%\d+]] = dpu.param "derived::unet::out smoothed 9" : tensor<4x4xf32>
// CHECK-NEXT:  dpu.linear [[O]], [[OUT]] :
func.func @unet(%x: tensor<1x3x4xf32> {dpu.name = "x"}, %k: tensor<1x5x4xf32> {dpu.name = "k"},
    %v: tensor<1x5x4xf32> {dpu.name = "v"}) -> (tensor<1x3x4xf32> {dpu.name = "y"}) {
  %up = dpu.param "up" : tensor<4x8xf32>
  %bias = dpu.param "bias" : tensor<8xf32>
  %down = dpu.param "down" : tensor<4x4xf32>
  %out = dpu.param "out" : tensor<4x4xf32>
  %h = dpu.linear %x, %up bias %bias : tensor<8xf32> geglu : tensor<1x3x4xf32>, tensor<4x8xf32> -> tensor<1x3x4xf32>
  %q = dpu.linear %h, %down : tensor<1x3x4xf32>, tensor<4x4xf32> -> tensor<1x3x4xf32>
  %o = dpu.attention %q, %k, %v heads 1 : i64 scale 0.5 : f64 key_block 64 : i64 prob_bits 8 : i64 :
    tensor<1x3x4xf32>, tensor<1x5x4xf32>, tensor<1x5x4xf32> -> tensor<1x3x4xf32>
  %y = dpu.linear %o, %out : tensor<1x3x4xf32>, tensor<4x4xf32> -> tensor<1x3x4xf32>
  func.return %y : tensor<1x3x4xf32>
}

// An activation between, a residual that is also read, a source beside: as they are.
// CHECK-LABEL: func.func @kept
// CHECK-NOT:   smoothed
// CHECK:       func.return
func.func @kept(%x: tensor<1x3x4xf32>, %r: tensor<1x3x4xf32>) -> (tensor<1x3x4xf32>, tensor<1x3x4xf32>) {
  %w = dpu.param "w" : tensor<4x4xf32>
  %m = dpu.param "m" : tensor<8x4xf32>
  %g = dpu.param "g" : tensor<4xf32>
  %a = dpu.linear %x, %w act "silu" : tensor<1x3x4xf32>, tensor<4x4xf32> -> tensor<1x3x4xf32>
  %b = dpu.linear %a, %w residual %r : tensor<1x3x4xf32> : tensor<1x3x4xf32>, tensor<4x4xf32> -> tensor<1x3x4xf32>
  %c = dpu.linear %b, %w : tensor<1x3x4xf32>, tensor<4x4xf32> -> tensor<1x3x4xf32>
  %d = dpu.linear %c concat %r : tensor<1x3x4xf32>, %m : tensor<1x3x4xf32>, tensor<8x4xf32> -> tensor<1x3x4xf32>
  %n = dpu.group_norm %d, %g, %g groups 2 : i64 eps 1.0e-05 : f32 act "silu" : tensor<1x3x4xf32>, tensor<4xf32>, tensor<4xf32> -> tensor<1x3x4xf32>
  %e = dpu.linear %n, %w : tensor<1x3x4xf32>, tensor<4x4xf32> -> tensor<1x3x4xf32>
  func.return %e, %d : tensor<1x3x4xf32>, tensor<1x3x4xf32>
}
