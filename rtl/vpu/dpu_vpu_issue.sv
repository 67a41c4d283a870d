// Takes VEC words and checks them before any effect: codes, counts, bounds of all operands, the gate table.
// A word is taken, multiplied out, compared and offered, a cycle each; the first of its errors in the simulator's order
// becomes a fault, reported when all earlier words have left the engine.

module dpu_vpu_issue
  import dpu_isa_pkg::*;
  import dpu_vpu_pkg::*;
#(
  parameter int unsigned Cols = 8,
  parameter int unsigned ActWords = 1024,
  parameter int unsigned AccWords = 1024,
  parameter int unsigned VbufWords = 1024,
  parameter int unsigned ParamWords = 1024
) (
  input  logic            clk_i,
  input  logic            rst_ni,
  input  logic            stop_i,

  input  logic            start_valid_i,
  output logic            start_ready_o,
  input  dpu_pkg::word_t  word_i,
  input  logic [31:0]     index_i,

  input  logic [1:0]      table_loaded_i,
  input  logic            idle_i,  // no earlier word is in the engine

  output logic            config_valid_o,
  input  logic            config_ready_i,
  output config_t         config_o,

  output logic            busy_o,
  output dpu_pkg::fault_t fault_o
);

  typedef enum logic [2:0] {Empty, Multiply, Compare, Offer, Halted} state_e;

  // The highest word that an operand touches, or the field that is wrong.
  typedef struct packed {
    logic [34:0] last;
    logic        fits;
  } span_t;

  state_e    state_q, state_d;
  vec_word_t w_q;
  logic [31:0] index_q;
  logic      take, offered;

  // The opcode was checked by dispatch; tokens and tag are the queue's.
  logic unused;
  assign unused = ^{w_q.reserved, w_q.signal_mask, w_q.wait_mask, w_q.tag, w_q.opcode};

  assign offered        = config_valid_o & config_ready_i;
  assign start_ready_o  = !stop_i & ((state_q == Empty) | offered);
  assign take           = start_valid_i & start_ready_o;
  assign busy_o         = state_q inside {Multiply, Compare, Offer};

  always_ff @(posedge clk_i) begin
    if (take) begin
      w_q     <= vec_word_t'(word_i);
      index_q <= index_i;
    end
  end

  // Multiply: offsets of the last row and the last tile.
  logic [31:0] a_rows_q, b_rows_q, d_rows_q;
  logic [23:0] a_tiles_q, b_tiles_q, d_tiles_q;
  logic [15:0] rows_less;
  logic [7:0]  tiles_less;
  logic [15:0] columns_q;  // valid ones

  assign rows_less  = w_q.rows - 16'd1;
  assign tiles_less = w_q.tiles - 8'd1;

  always_ff @(posedge clk_i) begin
    if (state_q == Multiply) begin
      a_rows_q  <= rows_less * w_q.a_rs;
      b_rows_q  <= rows_less * w_q.b_rs;
      d_rows_q  <= rows_less * w_q.d_rs;
      a_tiles_q <= tiles_less * w_q.a_ts;
      b_tiles_q <= tiles_less * w_q.b_ts;
      d_tiles_q <= tiles_less * w_q.d_ts;
      columns_q <= 16'(tiles_less) * 16'(Cols) + 16'(w_q.valid);
    end
  end

  function automatic logic [16:0] capacity(buffer_e buffer);
    case (buffer)
      BufferAct:   return 17'(ActWords);
      BufferAcc:   return 17'(AccWords);
      BufferVbuf:  return 17'(VbufWords);
      default:     return 17'(ParamWords);
    endcase
  endfunction

  function automatic span_t span(buffer_e buffer, logic [15:0] at, logic [34:0] length);
    span_t s;
    s.last   = 35'(at) + length - 35'd1;
    s.fits = s.last < 35'(capacity(buffer));
    return s;
  endfunction

  // Length of [rows, tiles] elements: PARAM ends with the last valid scalar of the last two tiles.
  function automatic logic [34:0] box(logic [7:0] source, logic [31:0] row, logic [23:0] tile, logic [15:0] ts,
                                      logic [7:0] tiles, logic [7:0] valid);
    logic [34:0] last, prior;
    if (source[3:0] == BufferParam) begin
      last   = 35'(tile) + 35'(valid);
      prior  = (tiles > 8'd1) ? 35'(tile) + 35'(Cols) - 35'(ts) : 35'd0;
      return 35'(row) + ((last > prior) ? last : prior);
    end
    return 35'(row) + 35'(tile) + ((source == {FormatF32, BufferVbuf}) ? 35'd2 : 35'd1);
  endfunction

  function automatic logic legal_a(logic [7:0] source);
    return source inside {{FormatI32, BufferAcc}, {FormatI32, BufferParam}, {FormatF32, BufferParam},
                          {FormatF16, BufferVbuf}, {FormatF32, BufferVbuf}};
  endfunction

  function automatic logic legal_d(logic [7:0] source);
    return (source[3:0] == BufferNone && source[7:4] <= FormatI15Split) ||
           (source inside {{FormatF16, BufferVbuf}, {FormatF32, BufferVbuf}, {FormatF32, BufferParam},
                           {FormatI8, BufferAct}, {FormatI8Offset, BufferAct}, {FormatI15Split, BufferAct}});
  endfunction

  // Compare: the errors in the simulator's order. Kinds of factors: a1, b1, a2, b2, r.
  logic [Factors-1:0][3:0]  kind;
  logic [Factors-1:0][15:0] factor_at;
  logic                     elem, squares, integer_format;
  logic [15:0]              red_length, red_second;
  logic [24:0]              d_planes;

  assign kind           = {w_q.rq[3:0], w_q.m2[7:4], w_q.m2[3:0], w_q.m1[7:4], w_q.m1[3:0]};
  assign factor_at      = {w_q.r, w_q.b2, w_q.a2, w_q.b1, w_q.a1};
  assign elem           = (w_q.m2[3:0] == OperandElem) | (w_q.m2[7:4] == OperandElem) |
                          ((w_q.op2[3:0] != Op2None) & (w_q.op2[7:4] == OperandElem));
  assign squares        = w_q.red[3:0] == ReduceSumSq;
  assign integer_format = format_e'(w_q.d_src[7:4]) inside {FormatI8, FormatI8Offset, FormatI15Split};
  assign red_length     = w_q.red[4] ? columns_q : w_q.rows;
  assign red_second     = w_q.red_at + (w_q.red[4] ? 16'(w_q.tiles) * 16'(Cols) : w_q.rows);
  assign d_planes       = (w_q.d_src[7:4] == FormatI15Split) ? 25'(d_tiles_q) + 25'(w_q.d_ts) : 25'd0;

  localparam int unsigned Checks = 27;
  typedef struct packed {
    logic        fails;
    error_e      code;
    logic [34:0] address;
  } check_t;

  check_t [Checks-1:0] found;
  check_t              first, first_q;

  function automatic check_t code_check(logic fails);
    return '{fails: fails, code: ErrorField, address: '0};
  endfunction

  function automatic check_t span_check(logic used, span_t s);
    return '{fails: used & !s.fits, code: ErrorScratchpad, address: s.last};
  endfunction

  always_comb begin
    found = '0;
    first = '0;
    if (state_q == Compare) begin
      found[0] = code_check(w_q.rows == 16'd0 || w_q.tiles == 8'd0 || w_q.valid == 8'd0 ||
                            w_q.valid > 8'(Cols));
      found[1] = code_check(!legal_a(w_q.a_src));
      found[2] = code_check(!legal_d(w_q.d_src));
      found[3] = code_check(w_q.sub != 8'd0 && w_q.a_src[7:4] != FormatI32);
      found[4] = span_check(1'b1, span(buffer_e'(w_q.a_src[3:0]), w_q.a,
                            box(w_q.a_src, a_rows_q, a_tiles_q, w_q.a_ts, w_q.tiles, w_q.valid)));
      found[5] = span_check(w_q.sub != 8'd0, span(BufferParam, w_q.sub_at, 35'(w_q.rows)));
      found[6] = code_check(elem && !(legal_a(w_q.b_src) && w_q.b_src != {FormatI32, BufferParam}));
      found[7] = span_check(elem, span(buffer_e'(w_q.b_src[3:0]), w_q.b,
                            box(w_q.b_src, b_rows_q, b_tiles_q, w_q.b_ts, w_q.tiles, w_q.valid)));
      for (int unsigned k = 0; k < 4; k++) begin
        found[8+2*k] = code_check(kind[k] > 4'(OperandElem) || (kind[k] == OperandElem && k < 2));
        found[9+2*k] = span_check(operand_e'(kind[k]) inside {OperandRow, OperandCol}, span(BufferParam, factor_at[k],
                                  35'(kind[k] == OperandRow ? w_q.rows : columns_q)));
      end
      found[16] = code_check(w_q.func[3:0] > 4'(FunctionGateMul));
      found[17] = '{fails: function_e'(w_q.func[3:0]) inside {FunctionGate, FunctionGateMul} &&
                           (w_q.func[7:4] > 4'd1 || !table_loaded_i[w_q.func[4]]), code: ErrorNumeric, address: '0};
      found[18] = code_check(w_q.op2[3:0] != Op2None &&
                             !(operand_e'(w_q.op2[7:4]) inside {OperandElem, OperandImm0, OperandImm1}));
      found[19] = code_check(w_q.op2[3:0] > 4'(Op2Max));
      found[20] = code_check(kind[FactorR] > 4'(OperandCol));
      found[21] = span_check(operand_e'(kind[FactorR]) inside {OperandRow, OperandCol}, span(BufferParam, factor_at[FactorR],
                             35'(kind[FactorR] == OperandRow ? w_q.rows : columns_q)));
      if (w_q.red[3:0] != ReduceNone) begin
        found[22] = code_check(w_q.red[5] & !integer_format);
        found[23] = span_check(1'b1, span(BufferParam, w_q.red_at, 35'(red_length)));
        found[24] = span_check(squares, span(BufferParam, w_q.red_at, 35'(red_length) +
                               (w_q.red[4] ? 35'(w_q.tiles) * 35'(Cols) : 35'(w_q.rows))));
        found[25] = code_check((w_q.red[5] & squares) | (w_q.red[3:0] > 4'(ReduceSumSq)));
      end
      found[26] = span_check(w_q.d_src[3:0] != BufferNone, span(buffer_e'(w_q.d_src[3:0]), w_q.d,
                             box(w_q.d_src, d_rows_q, d_tiles_q, w_q.d_ts, w_q.tiles, w_q.valid) + 35'(d_planes)));
      for (int k = int'(Checks) - 1; k >= 0; k--) if (found[k].fails) first = found[k];
    end
  end

  always_ff @(posedge clk_i) begin
    if (state_q == Compare) first_q <= first;
  end

  // The word as the rest of the engine needs it.
  function automatic element_t element(logic used, logic [7:0] source, logic [15:0] at, logic [15:0] rs,
                                       logic [15:0] ts);
    return '{used: used, buffer: buffer_e'(source[3:0]), format: format_e'(source[7:4]), at: at, rs: rs, ts: ts};
  endfunction

  function automatic logic steps_by_one(logic used, logic [3:0] buffer, logic [15:0] rs);
    return !used || (buffer == BufferParam && rs == 16'd1);
  endfunction

  config_t config_d, config_q;

  always_comb begin
    config_d.index = index_q;
    config_d.trap  = |(w_q.flags & FlagTrap);
    config_d.rows  = w_q.rows;
    config_d.tiles = w_q.tiles;
    config_d.valid = w_q.valid;
    config_d.vector = w_q.tiles == 8'd1 && w_q.valid == 8'd1 && w_q.red[3:0] == ReduceNone &&
                      steps_by_one(1'b1, w_q.a_src[3:0], w_q.a_rs) && steps_by_one(elem, w_q.b_src[3:0], w_q.b_rs) &&
                      steps_by_one(w_q.d_src[3:0] != BufferNone, w_q.d_src[3:0], w_q.d_rs);
    config_d.narrow = function_e'(w_q.func[3:0]) inside {FunctionRecip, FunctionRsqrt};
    config_d.a      = element(1'b1, w_q.a_src, w_q.a, w_q.a_rs, w_q.a_ts);
    config_d.b      = element(elem, w_q.b_src, w_q.b, w_q.b_rs, w_q.b_ts);
    for (int unsigned k = 0; k < Factors; k++) begin
      config_d.kind[k]     = operand_e'(kind[k]);
      config_d.row_used[k] = kind[k] == OperandRow;
      config_d.col_used[k] = kind[k] == OperandCol;
    end
    config_d.row_used[Sub]  = w_q.sub != 8'd0;
    config_d.scalar_at[Factors-1:0] = factor_at;
    config_d.scalar_at[Sub] = w_q.sub_at;
    config_d.imm            = w_q.imm;
    config_d.func           = function_e'(w_q.func[3:0]);
    config_d.slot           = w_q.func[4];
    config_d.op2            = op2_e'(w_q.op2[3:0]);
    config_d.op2_kind       = operand_e'(w_q.op2[7:4]);
    config_d.d_buffer       = buffer_e'(w_q.d_src[3:0]);
    config_d.d_format       = format_e'(w_q.d_src[7:4]);
    config_d.d              = w_q.d;
    config_d.d_rs           = w_q.d_rs;
    config_d.d_ts           = w_q.d_ts;
    config_d.d_plane        = d_tiles_q[15:0] + w_q.d_ts;
    config_d.red            = reduce_e'(w_q.red[3:0]);
    config_d.red_columns    = w_q.red[4];
    config_d.red_integer    = w_q.red[5];
    config_d.red_accumulate = w_q.red[6];
    config_d.red_at         = w_q.red_at;
    config_d.red_second     = red_second;
  end

  always_ff @(posedge clk_i) begin
    if (state_q == Compare) config_q <= config_d;
  end

  assign config_o       = config_q;
  assign config_valid_o = (state_q == Offer) & !first_q.fails;

  always_comb begin
    state_d = state_q;
    fault_o = '0;
    case (state_q)
      Empty:    if (take) state_d = Multiply;
      Multiply: state_d = Compare;
      Compare:  state_d = Offer;
      Offer: begin
        if (offered) state_d = take ? Multiply : Empty;
        if (first_q.fails && idle_i && !stop_i) begin
          state_d = Halted;
          fault_o = '{valid: 1'b1, code: first_q.code, index: index_q, address: 64'(first_q.address)};
        end
      end
      default: ;  // a fault: nothing is taken until reset
    endcase
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) state_q <= Empty;
    else         state_q <= state_d;
  end

endmodule
