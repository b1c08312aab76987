import { timingSafeEqual } from 'node:crypto'
import { type CanActivate, type ExecutionContext, Injectable, UnauthorizedException } from '@nestjs/common'
import type { FastifyRequest } from 'fastify'

const expected = Buffer.from(process.env.AUTH_TOKEN ?? '')

@Injectable()
export class AuthGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const given = Buffer.from(extractTokenFromHeader(context.switchToHttp().getRequest()) ?? '')
    if (given.length === expected.length && timingSafeEqual(given, expected)) return true
    throw new UnauthorizedException()
  }
}

function extractTokenFromHeader({ headers }: FastifyRequest): string | undefined {
  const [type, token] = headers.authorization?.split(' ') ?? []
  return type === 'Bearer' ? token : undefined
}
